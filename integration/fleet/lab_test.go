//go:build linux

package fleet_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

const (
	dataset  = "photos"
	gateways = 8
)

// lab is an island with a store and machines for readers and gateways. All scenarios read the same
// packed data; each has a new fleet with empty caches.
type lab struct {
	island *harness.Island
	store  *harness.Store

	storeNode *harness.Node
	reads     *harness.Reads
	readers   *harness.Node
	nodes     []*harness.Node
	tls       *certtest.Authority
	packed    *history.Packed
	pace      *harness.Pace
	fleet     *harness.Fleet

	samples, chunks uint64
	bytes           int64 // size of all chunks
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{island: harness.NewIsland(t), pace: harness.WatchPace(t)}
	l.readers = l.island.Node(t, "readers", "")
	store := l.island.Node(t, "store", "1gbit")
	l.storeNode = store
	l.store, l.reads = harness.MinIOBehindCount(t, store, 2*time.Millisecond)
	for i := range gateways {
		l.nodes = append(l.nodes, l.island.Node(t, "gw-"+strconv.Itoa(i), "400mbit"))
	}
	files, _ := harness.Files(t, times(4096, 16384), 4096)
	harness.Pack(t, l.store, files, dataset, "--shard-size", "1MiB", "--chunk-size", "32KiB")
	l.packed = harness.Packed(t, l.store, dataset)
	l.describe(t, harness.ServeAt(t, store, l.store, dataset))
	return l
}

func (l *lab) describe(t *testing.T, alone *harness.Gateway) {
	t.Helper()
	defer alone.Kill()
	var page struct {
		Datasets []struct {
			Samples, Chunks uint64
			Bytes           int64
		}
	}
	if err := json.Unmarshal(alone.MustGet(t, "/v1/datasets").Body, &page); err != nil || len(page.Datasets) != 1 {
		t.Fatalf("/v1/datasets: got %+v and %v, want one", page, err)
	}
	d := page.Datasets[0]
	l.samples, l.chunks, l.bytes = d.Samples, d.Chunks, d.Bytes
}

// cold gives the lab a fleet with empty caches, and starts the given gateways, or all by default.
func (l *lab) cold(t *testing.T, which ...int) {
	t.Helper()
	l.newFleet(t)
	l.fleet.StartAll(t, which...)
	l.fleet.Agree(t, which...)
	l.reads.Forget()
	l.pace.Forget()
}

// frugal reports too many reads from the store as an error, unless the machine was stalled
// meanwhile. On a stalled machine gateways presume each other dead, and then correctly use the
// store.
func (l *lab) frugal(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	fault := ""
	if !ok {
		fault = l.pace.Fault()
	}
	switch judged := harness.Judge(t, fault); {
	case !judged:
		t.Logf("figure: %s; the bound was not judged", fmt.Sprintf(format, args...))
	case !ok:
		t.Errorf(format, args...)
	}
}

func (l *lab) newFleet(t *testing.T) {
	t.Helper()
	l.fleet = harness.NewFleet(t, harness.FleetConfig{
		Store: l.store, Env: l.reads.Env, Dataset: dataset, Size: gateways, Nodes: l.nodes, TLS: l.tls,
		Args: []string{"--cache-size", "128MiB", "--lame-duck", "1s"},
	})
}
