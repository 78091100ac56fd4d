package integration_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
)

const dataset = "photos"

// small returns sizes that divide a few hundred files into several shards and many chunks.
func small() []string { return []string{"--shard-size", "256KiB", "--chunk-size", "32KiB"} }

// reader reads epochs, and records its responses in the history of its test.
type reader struct {
	t       *testing.T
	content map[string]string // packed bytes by member name
	log     *history.Log
	planned bool // the log has a plan
}

// newReader returns a reader for packed files. The log's plan may be nil.
func newReader(t *testing.T, content map[string]string, plan history.Plan) *reader {
	return &reader{t, content, harness.Record(t, plan), plan != nil}
}

func batchPath(epoch, batch int) string {
	return fmt.Sprintf("/v1/datasets/%s/epochs/%d/batches/%d", dataset, epoch, batch)
}

func share(batchSize, rank, world int) string {
	return fmt.Sprintf("?batch_size=%d&rank=%d&world_size=%d", batchSize, rank, world)
}

// step reads global batch m as all ranks of the given world size, and returns the joined bodies
// without their end blocks.
func (r *reader) step(g *harness.Gateway, epoch, m, batchSize, world int) []byte {
	r.t.Helper()
	var joined []byte
	for rank := range world {
		path := batchPath(epoch, m) + share(batchSize, rank, world)
		answer := g.MustGet(r.t, path)
		r.take(path, answer)
		joined = append(joined, answer.Body[:len(answer.Body)-1024]...)
	}
	return joined
}

// take records one response of the epoch.
func (r *reader) take(path string, answer harness.Response) {
	r.t.Helper()
	if got, want := answer.Header.Get("Content-Length"), strconv.Itoa(len(answer.Body)); got != want {
		r.t.Fatalf("%s: Content-Length: got %s, want %s", path, got, want)
	}
	e := history.Answer("reader", path, time.Now(), answer.Status, answer.Header, answer.Body, nil)
	e.Job = "epoch"
	if names := members(r.t, r.content, path, answer); !r.planned {
		e.Samples = names
	}
	r.log.Add(e)
	r.right(path)
}

// right stops the test if the history has a fault.
func (r *reader) right(what string) {
	r.t.Helper()
	if err := r.log.Err(); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// members reads one body, compares every member with the packed file, and returns the names.
func members(t *testing.T, content map[string]string, path string, answer harness.Response) (names []string) {
	t.Helper()
	for archive := tar.NewReader(bytes.NewReader(answer.Body)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, header.Name, err)
		}
		want, ok := content[header.Name]
		if !ok || string(data) != want {
			t.Fatalf("%s: %s: got %d bytes that were not packed under this name", path, header.Name, len(data))
		}
		names = append(names, header.Name)
	}
}

// endEpoch checks that the epoch delivered every sample exactly once.
func (r *reader) endEpoch(what string) {
	r.t.Helper()
	total := len(r.content)
	if r.planned {
		total = 0
	}
	r.log.Complete("reader", "epoch", uint64(total))
	r.right(what)
}

func batches(t *testing.T, g *harness.Gateway, epoch, batchSize int) int {
	t.Helper()
	r := g.MustGet(t, fmt.Sprintf("/v1/datasets/%s/epochs/%d?batch_size=%d", dataset, epoch, batchSize))
	var plan struct{ Batches int }
	if err := json.Unmarshal(r.Body, &plan); err != nil || plan.Batches < 2 {
		t.Fatalf("got %s, %v, want more than one batch", r.Body, err)
	}
	return plan.Batches
}

func sampleCount() int {
	if long() {
		return 4000
	}
	return 400
}

// onEveryStore packs the same files into a fresh store of each kind and runs test there.
func onEveryStore(t *testing.T, test func(t *testing.T, store *harness.Store, content map[string]string)) {
	t.Helper()
	files, content := harness.Files(t, sampleCount(), 4000)
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			store := harness.Open(t, kind)
			harness.Pack(t, store, files, dataset, small()...)
			test(t, store, content)
		})
	}
}

// readOnEveryStore runs the test on every store, with a reader for the packed samples.
func readOnEveryStore(t *testing.T, test func(t *testing.T, store *harness.Store, r *reader)) {
	t.Helper()
	onEveryStore(t, func(t *testing.T, store *harness.Store, content map[string]string) {
		test(t, store, newReader(t, content, harness.Packed(t, store, dataset)))
	})
}

// serve starts a gateway. Unless args say otherwise, its cache can hold the whole dataset of
// onEveryStore.
func serve(t *testing.T, store *harness.Store, args ...string) *harness.Gateway {
	t.Helper()
	return harness.Serve(t, store, dataset, append([]string{"--cache-size", "64MiB"}, args...)...)
}

// TestEverySampleExactlyOnce reads epochs with 1, 2, 3 and 8 ranks at two batch sizes. Each epoch
// delivers every sample once, and the order does not depend on the world size.
func TestEverySampleExactlyOnce(t *testing.T) {
	readOnEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		g := serve(t, store)
		for _, batchSize := range []int{7, 64} {
			order := map[int][]byte{}
			for _, world := range []int{1, 2, 3, 8} {
				for m := range batches(t, g, 0, batchSize) {
					joined := r.step(g, 0, m, batchSize, world)
					if world == 1 {
						order[m] = joined
					} else if !bytes.Equal(joined, order[m]) {
						t.Fatalf("batch %d of size %d: the shares of %d ranks differ from the global batch", m, batchSize, world)
					}
				}
				r.endEpoch(fmt.Sprintf("batch size %d, world size %d", batchSize, world))
			}
		}
	})
}

// TestWorldChangesAndGatewayDies changes the world size in the middle of an epoch, and kills and
// replaces the gateway. The epoch still delivers every sample once.
func TestWorldChangesAndGatewayDies(t *testing.T) {
	readOnEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		for _, batchSize := range []int{7, 64} {
			g := serve(t, store)
			n := batches(t, g, 1, batchSize)
			for m := range n {
				world := 3
				if m >= n/2 {
					world = 8
				}
				if m == n/3 {
					g.Kill()
					g = serve(t, store)
				}
				r.step(g, 1, m, batchSize, world)
			}
			r.endEpoch(fmt.Sprintf("batch size %d", batchSize))
		}
	})
}

// TestSameBytesFromEveryGateway requests the same addresses from a cold gateway, a warm one, after
// a restart, from a second gateway, and from one whose cache is too small for the plan.
func TestSameBytesFromEveryGateway(t *testing.T) {
	readOnEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		epoch := func(g *harness.Gateway, what string) {
			t.Helper()
			for m := range batches(t, g, 2, 16) {
				r.step(g, 2, m, 16, 2)
			}
			r.endEpoch(what)
		}
		first := serve(t, store)
		epoch(first, "cold")
		epoch(first, "warm")
		epoch(serve(t, store), "second gateway")
		first.Kill()
		epoch(serve(t, store), "restarted")
		epoch(serve(t, store, "--cache-size", "16MiB"), "small cache")
	})
}
