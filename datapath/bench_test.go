package datapath

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-data/millrace/internal/race"
	"github.com/millrace-data/millrace/shuffle"
)

// BenchmarkRead256 reads batches of 256 samples out of memory: a window's chunks leased, and gathered into one buffer
// as a server of small samples does.
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

// BenchmarkReadManyChunks reads batches out of memory whose samples lie in 118 chunks, as those of a slot order with 128 lanes do.
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

// warmAllocations is how many allocations a batch of 256 samples out of memory takes. Each costs a tenth of a microsecond, and
// more where many batches a second keep the collector busy.
const warmAllocations = 18

// TestABatchFromMemoryAllocatesLittle: neither what is there for other gateways nor what is there for traces costs a batch
// that comes from memory anything, where there are none.
func TestABatchFromMemoryAllocatesLittle(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates too")
	}
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
