package datapath

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
	"github.com/millrace-data/millrace/shuffle"
)

// The cost of a read is measured: the number of bytes that one stream transfers in the time to the
// first byte.
func TestReadCostIsMeasured(t *testing.T) {
	d := newDataset(t, 60, same(200, 30_000), 10, 1<<20) // 20 chunks of 300 KB
	for name, c := range map[string]struct {
		shape shaped.Shape
		want  int64
	}{
		"distant":  {shaped.Shape{FirstByte: 100 * time.Millisecond, Stream: 10e6, Total: 1e9}, 1_000_000},
		"near":     {shaped.Shape{FirstByte: 5 * time.Millisecond, Stream: 50e6, Total: 1e9}, 250_000},
		"very far": {shaped.Shape{FirstByte: 400 * time.Millisecond, Stream: 10e6, Total: 1e9}, 4_000_000},
		"too good": {shaped.Shape{FirstByte: 100 * time.Microsecond, Stream: 10e6, Total: 1e9}, policy.LeastReadCost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				p := newPath(t, Config{Budget: bud(16 << 20), NoPrefetch: true, PartSize: 1 << 20, Fetchers: 1})
				s := p.Open(d.index, shaped.New(d.store, c.shape), "set/")
				if got := p.rates.cost(); got != policy.ReadCost {
					t.Errorf("got a cost of %d before the store was read, want %d", got, policy.ReadCost)
				}
				d.readEpoch(t, s, d.plan(t, shuffle.None, 0), 0, 10)
				if got := p.rates.cost(); got < c.want*7/10 || got > c.want*13/10 {
					t.Errorf("got a cost of %d bytes a read, want about %d", got, c.want)
				}
			})
		})
	}
}

func TestRates_LeaveOutReadsThatPausedBeforeARetry(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var r rates
		for i := range int64(2 * policy.RatedReads) {
			m := r.begin(&datasetReads{})
			time.Sleep(10 * time.Millisecond)
			m.filled(0)
			time.Sleep(100 * time.Millisecond)
			m.filled(1e6)
			if i%2 == 1 {
				time.Sleep(10 * time.Second)
				m.filled(1e6) // a retry begins
			}
			time.Sleep(100 * time.Millisecond)
			m.filled(2e6)
			m.ended(2e6, false)
		}
		if got, want := r.cost(), int64(1e5); got != want {
			t.Errorf("got a cost of %d bytes a read, want %d: 10 ms of 10 MB per second", got, want)
		}
		if got := r.came.Load(); got != 2*policy.RatedReads*2e6 {
			t.Errorf("got %d bytes, want %d", got, int64(2*policy.RatedReads*2e6))
		}
	})
}

// A job begins in the middle of its epoch. It reads a chunk by the ranges of its samples if it
// needs only a small part of it, and otherwise whole.
func TestLittleOfAChunkIsReadBySamples(t *testing.T) {
	d := newDataset(t, 61, same(320, 30_000), 160, 5<<20) // chunks of 4.9 MB with 160 samples each
	for first, ranged := range map[uint64]bool{0: false, 80: false, 154: true} {
		d.store.Reset()
		p := newPath(t, Config{Budget: bud(12 << 20), NoPrefetch: true})
		s := p.Open(d.index, d.store, "set/")
		s.cost = 1 << 40
		plan := d.plan(t, shuffle.None, 0)
		at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: first, End: first + 2, BatchSize: 2}
		body, err := s.Read(t.Context(), at, d.ranges(t, plan.Epoch(0).Append(nil, first, first+2)))
		must(t, err)
		body.Close()
		if got := p.Stats().RangeReads > 0; got != ranged {
			t.Errorf("position %d of 160: got its samples read by themselves: %v, want %v", first, got, ranged)
		}
	}
}

// Chunks that are not worth reading whole are not prefetched either.
func TestRun_SkipsChunksReadByRanges(t *testing.T) {
	d := newDataset(t, 61, same(320, 30_000), 160, 5<<20)
	bubble.Test(t, func(t *testing.T) {
		x := d.trialOf(t, 1, Config{})
		x.source.cost = 1 << 40
		plan := d.plan(t, shuffle.None, 0)
		for first := uint64(154); first < 158; first += perChunk {
			x.read(t, plan.Epoch(0), plan, first)
			synctest.Wait()
		}
		x.stop()
		for _, r := range d.store.Reads() {
			if r.Length > 8*31_000 {
				t.Errorf("got a read of %d bytes for a few samples", r.Length)
			}
		}
		if got := d.store.Stats().Requests[memstore.Read]; got == 0 {
			t.Error("got no reads, want those of the samples")
		}
	})
}
