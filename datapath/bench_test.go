package datapath

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// BenchmarkRead256 reads batches of 256 samples from memory: it leases the chunks of a window and
// copies the samples into one buffer, as a server of small samples does.
func BenchmarkRead256(b *testing.B) {
	for _, size := range []int{4 << 10, 110 << 10} {
		for _, gather := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/gather=%v", size>>10, gather), func(b *testing.B) {
				d := newDataset(b, 20, same(64<<20/size, size), 1<<20, 8<<20)
				p := newPath(b, Config{Budget: bud(512 << 20), NoPrefetch: true})
				p.cfg.Debug = false
				s := p.Open(d.index, d.store, "set/")
				plan := d.plan(b, shuffle.Window, 128)
				rnd := rand.New(rand.NewPCG(1, 1))
				samples := make([]uint64, 256)
				for i := range samples {
					samples[i] = rnd.Uint64N(d.index.Samples())
				}
				chunks := d.ranges(b, samples)
				at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 256, BatchSize: 256}
				out := make([]byte, 0, 256*(size+1024))
				b.SetBytes(int64(256 * size))
				b.ReportAllocs()
				for b.Loop() {
					body, err := s.Read(b.Context(), at, chunks)
					if err != nil {
						b.Fatal(err)
					}
					if gather {
						out = out[:0]
						for _, seg := range body.Segments {
							out = append(out, seg...)
						}
					}
					body.Close()
				}
			})
		}
	}
}

// BenchmarkReadManyChunks reads batches from memory whose samples are in 118 chunks, as in a slot
// order with 128 lanes.
func BenchmarkReadManyChunks(b *testing.B) {
	const chunks, perChunk = 128, 64
	d := newDataset(b, 21, same(chunks*perChunk, 4<<10), perChunk, 8<<20)
	p := newPath(b, Config{Budget: bud(512 << 20), NoPrefetch: true})
	p.cfg.Debug = false
	s := p.Open(d.index, d.store, "set/")
	plan := d.plan(b, shuffle.Slot, chunks)
	var samples []uint64
	for i := range uint64(256) {
		samples = append(samples, i%118*perChunk+i/118)
	}
	ranges := d.ranges(b, samples)
	if len(ranges) != 118 {
		b.Fatalf("got %d chunks, want 118", len(ranges))
	}
	at := shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: 256, BatchSize: 256}
	b.ReportAllocs()
	for b.Loop() {
		body, err := s.Read(b.Context(), at, ranges)
		if err != nil {
			b.Fatal(err)
		}
		body.Close()
	}
}
