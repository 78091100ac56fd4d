package datapath

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// manyChunks is the size of a dataset that reports no chunk as resident.
type manyChunks int

func (d *manyChunks) Chunks() int     { return int(*d) }
func (*manyChunks) Cost(int) int64    { return 1 << 20 }
func (*manyChunks) Resident(int) bool { return false }

// BenchmarkEviction measures how long the cache is locked while one chunk is evicted. There are
// 1,000 readers of 64 plans on an index of a million chunks, 10,000 of them in memory.
func BenchmarkEviction(b *testing.B) {
	const chunks, samples, plans, readers, size, kept = 1_000_000, 256, 64, 1000, 1024, 10_000
	d := new(manyChunks)
	*d = chunks
	p := &Path{readers: lookahead.New(lookahead.Config{Budget: 8 << 30})}
	first := make([]uint64, chunks+1)
	for i := range first {
		first[i] = uint64(i) * samples
	}
	now := time.Now()
	for seed := range uint64(plans) {
		plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 128, Seed: seed}, first)
		if err != nil {
			b.Fatal(err)
		}
		epoch := plan.Epoch(0)
		for i := seed; i < readers; i += plans {
			at := i * (plan.Samples() / readers) / samples * samples
			v := p.readers.Asked(d, shuffle.Cursor{Plan: plan, Epoch: epoch, First: at, End: at + samples, BatchSize: samples, Rank: i}, now)
			v.Answered(now)
			v.Ended(now)
		}
	}
	c := chunkcache.New[int](chunkcache.Config{Budget: budget.New(kept*chunkcache.Cost(size), 0)})
	table := chunkcache.NewTable(chunks, chunkcache.Dataset[int]{
		Chunk: func(k int) chunkcache.Chunk[int] { return chunkcache.Chunk[int]{Key: k, Size: size} },
		Due:   func(k int, enough int64) int64 { return p.due(d, k, enough) },
	})
	load := func(chunk int) {
		wait, err := c.Start(b.Context(), chunkcache.Request[int]{
			Table: table, Chunks: []int{chunk}, Due: chunkcache.Soon,
			Load: func(_ context.Context, fills []*chunkcache.Fill[int]) error {
				fills[0].Publish()
				return nil
			},
		})
		if err != nil {
			b.Fatal(err)
		}
		l, err := wait()
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
	chunk := 0
	for range kept {
		load(chunk * 7919 % chunks)
		chunk++
	}
	var held []time.Duration
	for b.Loop() {
		begun := time.Now()
		if c.Reclaim(1, chunkcache.Soon) == 0 {
			b.Fatal("no chunk went")
		}
		held = append(held, time.Since(begun))
		load(chunk * 7919 % chunks)
		chunk++
	}
	slices.Sort(held)
	b.ReportMetric(float64(held[len(held)/2].Microseconds()), "us-p50")
	b.ReportMetric(float64(held[len(held)*99/100].Microseconds()), "us-p99")
	b.ReportMetric(float64(held[len(held)-1].Microseconds()), "us-max")
}
