package datapath

import (
	"bytes"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// TestSettledBodiesHoldLittle reads batches that need a small part of many chunks, or that were
// copied, and lets them settle when half of each is sent. The unneeded chunks can then be evicted,
// and the remaining bytes stay right.
func TestSettledBodiesHoldLittle(t *testing.T) {
	const total = 4 << 20
	d := newDataset(t, 70, same(600, 5000), 100, 128<<10)
	for name, c := range map[string]struct {
		order  string
		window uint64
		most   int64 // bytes pinned at the end, for 100 samples of 5.5 KB, half of which are still needed
	}{
		"leased": {shuffle.Window, 20, 450 << 10},
		"copied": {shuffle.Full, 0, 600 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPath(t, Config{Budget: bud(total)})
			s := p.Open(d.index, d.store, "set/")
			plan := d.plan(t, c.order, c.window)
			e := plan.Epoch(0)
			chunks := d.ranges(t, e.Append(nil, 0, 100))
			body, err := s.Read(t.Context(), shuffle.Cursor{Plan: plan, Epoch: e, First: 0, End: 100, BatchSize: 100}, chunks)
			must(t, err)
			defer body.Close()
			must(t, d.compare(chunks, body))
			before := p.budget.Pinned()
			for seq := range 50 {
				body.Segments[seq] = nil
			}
			body.Settle()
			p.reclaim(total)
			if got := p.budget.Pinned(); got > c.most || got >= before {
				t.Errorf("got %d bytes pinned, want at most %d; before it settled %d", got, c.most, before)
			}
			for _, c := range chunks {
				for _, r := range c.Ranges {
					if got := body.Segments[r.Seq]; r.Seq >= 50 && !bytes.Equal(got, d.stored(c.Chunk, r)) {
						t.Errorf("chunk %d segment %d: got other bytes than stored", c.Chunk, r.Seq)
					}
				}
			}
		})
	}
}
