package shuffle

import (
	"fmt"
	"testing"
)

func BenchmarkAppend256(b *testing.B) {
	for _, shape := range []struct {
		name      string
		chunks, c uint64
	}{{"512x128", 512, 128}, {"1e6x1000", 1e6, 1000}} {
		for _, name := range []string{Window, Slot, Full} {
			for _, stride := range []uint64{1, 7919} {
				b.Run(fmt.Sprintf("%s/%s/stride=%d", name, shape.name, stride), func(b *testing.B) {
					p := mustPlan(b, Params{Shuffle: name, Window: 128, Seed: 1}, equal(shape.chunks, shape.c))
					e := p.Epoch(3)
					dst := make([]uint64, 0, 256)
					batches := p.Samples() / 256
					b.ReportAllocs()
					i := uint64(0)
					for b.Loop() {
						lo := i * stride % batches * 256
						dst = e.Append(dst[:0], lo, lo+256)
						i++
					}
				})
			}
		}
	}
}

func benchmarkPlan(b *testing.B, params Params) {
	first := equal(1e6, 1000)
	b.ReportAllocs()
	for b.Loop() {
		p := mustPlan(b, params, first)
		p.Epoch(1).At(12345)
	}
}

func BenchmarkPlanWindow1e9(b *testing.B) {
	benchmarkPlan(b, Params{Shuffle: Window, Window: 128, Seed: 1})
}

func BenchmarkPlanSlot1e9(b *testing.B) {
	benchmarkPlan(b, Params{Shuffle: Slot, Window: 128, Seed: 1})
}

func BenchmarkAt(b *testing.B) {
	for _, name := range []string{None, Window, Slot, Full} {
		p := mustPlan(b, Params{Shuffle: name, Window: 128, Seed: 1}, equal(1e6, 1000))
		e := p.Epoch(3)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			t := uint64(0)
			for b.Loop() {
				e.At(t)
				t = (t + 7_919_000_001) % p.Samples()
			}
		})
		b.Run(name+"/inverse", func(b *testing.B) {
			e.Position(0)
			b.ReportAllocs()
			t := uint64(0)
			for b.Loop() {
				e.Position(t)
				t = (t + 7_919_000_001) % p.Samples()
			}
		})
	}
}
