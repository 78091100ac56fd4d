package datapath

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/shuffle"
)

// counted is a context that counts the contexts and functions that wait for its end.
type counted struct {
	context.Context
	done chan struct{}
	open *atomic.Int64
}

func newCounted() counted {
	return counted{context.Background(), make(chan struct{}), new(atomic.Int64)}
}

func (c counted) Done() <-chan struct{} { return c.done }

// AfterFunc is how package context adds to a context that it does not know.
func (c counted) AfterFunc(func()) (stop func() bool) {
	c.open.Add(1)
	return sync.OnceValue(func() bool {
		c.open.Add(-1)
		return true
	})
}

// TestSource_KeepsNothingOfWhatHasEnded: in its own context, which ends with the source, nor in that of a caller.
func TestSource_KeepsNothingOfWhatHasEnded(t *testing.T) {
	d := newDataset(t, 210, same(100, 3000), 10, 16<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}})
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		caller, own := newCounted(), newCounted()
		s.uses.closing = own
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		left := func(after string) {
			t.Helper()
			synctest.Wait()
			if got := own.open.Load() + caller.open.Load(); got != 0 {
				t.Errorf("after %s: got %d contexts or functions left, want none", after, got)
			}
		}
		plan := d.plan(t, shuffle.Window, 4)
		p.Pull(caller, "somebody", peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: "set", Generation: d.index.Generation()}, Chunks: []uint32{0}})
		left("Pull")
		_, err := s.Warm(caller, first(plan, 1, 20))
		must(t, err)
		left("Warm")
		body, err := p.answer(caller, d.wants(d.ranges(t, []uint64{3, 70})))
		must(t, err)
		body.Close()
		left("an answer")
		p.cache.Reclaim(8<<20, -1)
		d.readEpoch(t, s, plan, 0, 20)
		left("an epoch")
		if p.Stats().StoreBytes < 2*d.bytes() {
			t.Error("the epoch was not read from the store again")
		}
		stop()
		run.Wait()
	})
}
