package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// withDisk returns the arguments for a gateway with a disk tier.
func withDisk(dir string) []string {
	return []string{"--disk-cache", dir, "--disk-cache-size", "256MiB", "--lame-duck", "0s"}
}

// written waits until the gateway's disk holds every chunk of the dataset.
func written(t *testing.T, g *harness.Gateway) {
	t.Helper()
	var d struct {
		Chunks float64 `json:"chunks"`
	}
	if err := json.Unmarshal(g.MustGet(t, "/v1/datasets/"+dataset).Body, &d); err != nil || d.Chunks < 10 {
		t.Fatalf("dataset: got %v chunks and %v, want many", d.Chunks, err)
	}
	g.Ready(t, func(context.Context) error {
		if got := g.Metric(t, "millrace_disk_chunks", ""); got != d.Chunks {
			return fmt.Errorf("%v of %v chunks are on disk", got, d.Chunks)
		}
		return nil
	})
}

// TestRestartedGatewayReadsItsDiskAlone reads an epoch, restarts the gateway, removes the store,
// and reads the epoch again.
func TestRestartedGatewayReadsItsDiskAlone(t *testing.T) {
	readOnEveryStore(t, func(t *testing.T, store *harness.Store, r *reader) {
		const size = 32
		dir := filepath.Join(t.TempDir(), "disk")
		g := serve(t, store, withDisk(dir)...)
		n := batches(t, g, 0, size)
		for m := range n {
			r.step(g, 0, m, size, 2)
		}
		r.endEpoch("from the store")
		written(t, g)
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		g = serve(t, store, withDisk(dir)...)
		if store.Server() != nil {
			store.Server().Kill()
		} else {
			for _, key := range store.Keys(t, dataset) {
				if err := os.Remove(filepath.Join(store.Path, key)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for m := range n {
			r.step(g, 0, m, size, 2)
		}
		r.endEpoch("from disk")
		if reads, hits := g.Metric(t, "millrace_store_reads_total", ""), g.Metric(t, "millrace_disk_hits_total", ""); reads != 0 || hits == 0 {
			t.Errorf("got %v reads of the store and %v of the disk, want none and some", reads, hits)
		}
		if got := g.Metric(t, "millrace_tier_bytes_total", `tier="disk"`); got == 0 {
			t.Error("bytes of the disk tier: got 0, want some")
		}
	})
}

// TestKillsLeaveNoTornByte repeatedly kills a gateway with SIGKILL while it reads from and writes
// to its disk. It removes some of the disk's files each time, so that there is always more to
// write. No response ever differs.
func TestKillsLeaveNoTornByte(t *testing.T) {
	kills := 30
	if long() {
		kills = 500
	}
	const size = 16
	files, content := harness.Files(t, 200, 20000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "1MiB", "--chunk-size", "64KiB")
	r := newReader(t, content, harness.Packed(t, store, dataset))
	plain := serve(t, store)
	n := batches(t, plain, 0, size)
	plain.Kill()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	var hits float64
	for kill := range kills {
		g := serve(t, store, withDisk(dir)...)
		before := g.Metric(t, "millrace_disk_chunks", "")
		end := time.NewTimer(time.Duration(random.IntN(60)) * time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for c := range 3 {
			readers.Go(func() {
				for m := c; ctx.Err() == nil; m++ {
					_, _ = g.Try(ctx, batchPath(0, m%n)+share(size, 0, 1)) // the history checks the response
				}
			})
		}
		<-end.C
		if kill%5 == 4 { // otherwise most would be killed before their first response
			hits += g.Metric(t, "millrace_disk_hits_total", "")
			if corrupt := g.Metric(t, "millrace_disk_corrupt_total", ""); corrupt != 0 {
				t.Errorf("kill %d: got %v files that are not what their names say, of %v, want none", kill, corrupt, before)
			}
		}
		g.Kill()
		stop()
		readers.Wait()
		r.right(fmt.Sprintf("kill %d", kill))
		thin(t, dir, random)
	}
	if hits == 0 {
		t.Error("got no chunk from disk, want some")
	}
	last := serve(t, store, withDisk(dir)...)
	for m := range n {
		r.step(last, 0, m, size, 1)
	}
	r.endEpoch("after all kills")
	written(t, last)
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s: got a file left over by a kill, want none", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// thin removes about half of the chunk files, and truncates none.
func thin(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "chunks"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(name, ".tmp") && random.IntN(2) == 0 {
			return os.Remove(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiskThatTakesNoWholeChunk limits the size of files that a gateway may write: writes of a
// chunk's file fail halfway with a system error. Only the metrics report the failures.
func TestDiskThatTakesNoWholeChunk(t *testing.T) {
	const size = 32
	files, content := harness.Files(t, 200, 20000)
	store := harness.Open(t, "dir")
	harness.Pack(t, store, files, dataset, "--shard-size", "2MiB", "--chunk-size", "512KiB")
	dir := t.TempDir()
	r := newReader(t, content, harness.Packed(t, store, dataset))
	// The unit is 512 or 1,024 bytes, depending on the shell; the copy of the index is smaller
	// than the limit.
	g := harness.ServeUnder(t, `ulimit -f 256 && exec "$0" "$@"`, store, dataset, append(withDisk(dir), "--cache-size", "64MiB")...)
	for epoch := range 2 {
		for m := range batches(t, g, epoch, size) {
			r.step(g, epoch, m, size, 1)
		}
		r.endEpoch(fmt.Sprintf("epoch %d", epoch))
	}
	g.Ready(t, func(context.Context) error {
		if g.Metric(t, "millrace_disk_write_errors_total", "") == 0 || g.Metric(t, "millrace_disk_writes_off", "") != 1 {
			return fmt.Errorf("no write has failed yet")
		}
		return nil
	})
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	err := filepath.WalkDir(filepath.Join(dir, "chunks"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s: got a broken file left, want none", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
