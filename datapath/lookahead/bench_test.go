package lookahead

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// BenchmarkAsked measures the cost of one request, for a reader that needs the same chunks as
// before and for a reader that needs other chunks.
func BenchmarkAsked(b *testing.B) {
	for _, step := range []uint64{1, 256} {
		b.Run(fmt.Sprintf("step=%d", step), func(b *testing.B) {
			d := newData(4096, 128)
			p := d.plan(b, shuffle.Slot, 128, 1)
			r := newReaders(b, Config{Budget: 1000})
			e, now := p.Epoch(0), begin()
			for i := uint64(0); b.Loop(); i++ {
				now = now.Add(time.Millisecond)
				c := shuffle.Cursor{Plan: p, Epoch: e, First: i * step % p.Samples(), End: i*step%p.Samples() + 1, BatchSize: 256}
				r.read(d, c, now)
			}
		})
	}
}

// BenchmarkScale measures the costs with many readers: of one request, of finding one missing
// chunk, and of the due time of a chunk.
func BenchmarkScale(b *testing.B) {
	for _, c := range []struct{ readers, plans uint64 }{{1, 1}, {64, 64}, {1000, 64}} {
		d := newData(1_000_000, 256)
		r := newReaders(b, Config{Budget: 8192})
		cursors := make([]shuffle.Cursor, c.readers)
		plans := make([]*shuffle.Plan, c.plans)
		epochs := make([]*shuffle.Epoch, c.plans)
		for i := range plans {
			plans[i] = d.plan(b, shuffle.Slot, 128, uint64(i))
			epochs[i] = plans[i].Epoch(0)
		}
		now := begin()
		for i := range cursors {
			p := plans[i%len(plans)]
			first := uint64(i) * (p.Samples() / c.readers) / 256 * 256
			cursors[i] = shuffle.Cursor{Plan: p, Epoch: epochs[i%len(plans)], First: first, End: first + 256, BatchSize: 256, Rank: uint64(i)}
			r.read(d, cursors[i], now)
		}
		b.Run(fmt.Sprintf("%d readers of %d plans/request", c.readers, c.plans), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				at := &cursors[i%len(cursors)]
				if at.First, at.End = at.First+256, at.End+256; at.End > at.Plan.Samples() {
					at.First, at.End = 0, 256
				}
				now = now.Add(time.Millisecond)
				r.read(d, *at, now)
			}
		})
		r.NextUse(d, 0) // computes the inverses of the orders
		b.Run(fmt.Sprintf("%d readers of %d plans/due", c.readers, c.plans), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				r.NextUse(d, i*7919%d.chunks)
			}
		})
		b.Run(fmt.Sprintf("%d readers of %d plans/missing", c.readers, c.plans), func(b *testing.B) {
			for b.Loop() {
				for n := range r.Missing() {
					d.resident[n.Chunk] = true
					break
				}
				if len(d.resident) > 4096 {
					clear(d.resident)
					r.lost.Store(true)
				}
			}
		})
	}
}
