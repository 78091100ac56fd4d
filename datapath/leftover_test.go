package datapath

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/shuffle"
)

// TestSource_KeepsNothingAfterRequests checks that requests leave no context or function behind,
// either in the source's own context, which ends with the source, or in a caller's context.
func TestSource_KeepsNothingAfterRequests(t *testing.T) {
	d := newDataset(t, 210, same(100, 3000), 10, 16<<10)
	bubble.Test(t, func(t *testing.T) {
		p := newPath(t, Config{Budget: bud(8 << 20), Peers: alone{}})
		s := p.Open(d.index, d.store, "set/")
		s.Share("set")
		caller, own := leaks.NewContext(), leaks.NewContext()
		s.uses.closing = own
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = p.Run(ctx) })
		left := func(after string) {
			t.Helper()
			synctest.Wait()
			if got := own.Open() + caller.Open(); got != 0 {
				t.Errorf("after %s: got %d contexts or functions left, want none", after, got)
			}
		}
		plan := d.plan(t, shuffle.Window, 4)
		p.Pull(caller, "other", peer.ChunkList{DatasetGeneration: peer.DatasetGeneration{Dataset: "set", Generation: d.index.Generation()}, Chunks: []uint32{0}})
		left("Pull")
		_, err := s.Warm(caller, first(plan, 1, 20))
		must(t, err)
		left("Warm")
		body, err := p.answer(caller, d.query(d.ranges(t, []uint64{3, 70})))
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
