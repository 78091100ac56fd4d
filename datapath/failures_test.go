package datapath

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

// A prefetch that fails is not retried at once. Its chunk is requested again only after a pause,
// when a reader arrives.
func TestRun_SkipsFailedChunks(t *testing.T) {
	const shards, good = 8, "set/s00000.tar"
	d := newDataset(t, 50, same(10*shards, 3000), 10, 1<<20) // one chunk of about 36 KB in each shard
	for _, c := range []struct {
		name  string
		fault memstore.Fault
		part  int64
		reads int // maximum number of reads of each chunk
	}{
		{"wrong bytes", memstore.Fault{Corrupt: func(b []byte) { b[0] ^= 1 }}, 1 << 20, 2},
		{"gone, and read in parts", memstore.Fault{Err: objstore.ErrNotFound}, 10 << 10, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var mu sync.Mutex // guards asked
				asked := map[string]int{}
				d.store.SetFault(func(call memstore.Call) memstore.Fault {
					if call.Key == good {
						return memstore.Fault{}
					}
					mu.Lock()
					defer mu.Unlock()
					asked[call.Key]++
					f := c.fault
					f.Delay = time.Millisecond
					return f
				})
				defer d.store.SetFault(nil)
				p := newPath(t, Config{Budget: bud(8 << 20), PartSize: c.part})
				s := p.Open(d.index, d.store, "set/")
				ctx, stop := context.WithCancel(t.Context())
				var run sync.WaitGroup
				run.Go(func() { _ = p.Run(ctx) })
				plan := d.plan(t, shuffle.None, 0)
				at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 10, BatchSize: 10}
				chunks := d.ranges(t, at.Epoch.Append(nil, 0, 10))
				read := func() (most, sum int) { // most and sum of the numbers of reads, over the chunks that fail
					body, err := s.Read(t.Context(), at, chunks)
					must(t, err)
					body.Close()
					time.Sleep(retryAhead / 4) // fake time
					mu.Lock()
					defer mu.Unlock()
					for _, n := range asked {
						most, sum = max(most, n), sum+n
					}
					return most, sum
				}
				var before int
				for range 3 {
					most, sum := read()
					if most == 0 || most > c.reads {
						t.Errorf("got %d reads of one chunk that fails, want 1 to %d", most, c.reads)
					}
					before = sum
				}
				time.Sleep(retryAhead)
				if _, sum := read(); sum == before {
					t.Error("nothing was tried again after a while")
				}
				stop()
				run.Wait()
			})
		})
	}
}

// If several parts of a prefetched chunk fail, that does not start the prefetch of the next chunk.
func TestRun_FailedPartsDoNotWakeIt(t *testing.T) {
	d := newDataset(t, 50, same(10, 3000), 10, 1<<20)
	for err, want := range map[error]bool{nil: true, objstore.ErrUnavailable: false} {
		d.store.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: err} })
		p := newPath(t, Config{Budget: bud(1 << 20), PartSize: 10 << 10})
		s := p.Open(d.index, d.store, "set/")
		chunk := s.whole(0, make([]byte, d.index.Chunk(0).Length), nil)
		chunk.gates = nil
		got := s.read(t.Context(), []*portion{chunk}, p.cfg.PartSize, nil)
		if told := len(p.kick) > 0; (got == nil) != want || told != want {
			t.Errorf("store fails with %v: got %v, and told to look again: %v, want %v", err, got, told, want)
		}
	}
}

// Run resumes by itself when failed chunks may be retried, even if the reader sends no further
// request.
func TestRun_ResumesAfterStoreFailure(t *testing.T) {
	const chunks = 16
	d := oneToAShard(t, chunks)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 60, Config{})
		plan := d.plan(t, shuffle.None, 0)
		x.read(t, plan.Epoch(0), plan, 0)
		x.path.cache.Reclaim(x.path.budget.Total(), chunkcache.AnyDue)
		d.store.SetFault(func(memstore.Call) memstore.Fault {
			return memstore.Fault{Delay: time.Millisecond, Err: objstore.ErrUnavailable}
		})
		defer d.store.SetFault(nil)
		x.path.look()
		synctest.Wait()
		time.Sleep(retryAhead / 2) // fake time
		d.store.SetFault(nil)
		time.Sleep(retryAhead)
		synctest.Wait()
		if got := x.path.Stats().CachedChunks; got < chunks-1 {
			t.Errorf("got %d of %d chunks a while after the store is back, want all that the reader comes for", got, chunks)
		}
		x.stop()
	})
}
