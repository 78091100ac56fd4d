//go:build !race

// The race detector also allocates, so the count is exact only without it.

package datapath

import (
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// warmAllocations is the number of allocations for a batch of 256 samples from memory. Each costs a
// tenth of a microsecond, and more if many batches per second keep the garbage collector busy.
const warmAllocations = 17

// TestABatchFromMemoryAllocatesLittle checks that a batch from memory makes no allocations for
// other gateways or traces if there are none.
func TestABatchFromMemoryAllocatesLittle(t *testing.T) {
	d := newDataset(t, 20, same(4096, 1000), 1<<20, 256<<10)
	p := newPath(t, Config{Budget: bud(64 << 20), NoPrefetch: true})
	p.cfg.Debug = false
	s := p.Open(d.index, d.store, "set/")
	plan := d.plan(t, shuffle.Window, 128)
	chunks := d.ranges(t, plan.Epoch(0).Append(nil, 0, 256))
	at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 256, BatchSize: 256}
	ctx := t.Context()
	got := testing.AllocsPerRun(100, func() {
		body, err := s.Read(ctx, at, chunks)
		if err != nil {
			t.Fatal(err)
		}
		body.Close()
	})
	if got > warmAllocations {
		t.Errorf("got %v allocations for a batch out of memory, want at most %d", got, warmAllocations)
	}
}
