package lookahead

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// BenchmarkAsked is what the table costs one request, of a reader that needs the same chunks as before and of one that does not.
func BenchmarkAsked(b *testing.B) {
	for _, step := range []uint64{1, 256} {
		b.Run(fmt.Sprintf("step=%d", step), func(b *testing.B) {
			d := newData(4096, 128)
			p := d.plan(b, shuffle.Slot, 128, 1)
			r := New(Config{Budget: 1000})
			e, now := p.Epoch(0), begin()
			for i := uint64(0); b.Loop(); i++ {
				now = now.Add(time.Millisecond)
				c := shuffle.Cursor{Plan: p, Epoch: e, First: i * step % p.Samples(), End: i*step%p.Samples() + 1, BatchSize: 256}
				r.read(d, c, now)
			}
		})
	}
}
