package shuffle

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// bucketed returns the samples of an epoch with buckets. costs has the cost of each sample.
func bucketed(b Buckets, e *Epoch, seed uint64, costs []uint32) []uint64 {
	plain := e.Append(nil, 0, b.Samples)
	out := slices.Clone(plain)
	for position := uint64(0); position < b.Samples; {
		block, ok := b.Block(position)
		if !ok {
			break
		}
		from, to := b.Range(block)
		own := make([]uint32, to-from)
		for i := range own {
			own[i] = costs[plain[from+uint64(i)]]
		}
		for place, former := range b.Arrange(seed, e.Number(), block, own) {
			out[from+uint64(place)] = plain[from+uint64(former)]
		}
		position = to
	}
	return out
}

// bucketModel places the samples of an epoch as section 10 of docs/spec/order.md says.
func bucketModel(b Buckets, e *Epoch, seed uint64, costs []uint32) []uint64 {
	var out []uint64
	cost := func(t uint64) uint32 { return max(costs[e.At(t)], 1) }
	whole := b.Samples / b.BatchSize
	for block := uint64(0); block*b.Batches < whole; block++ {
		k := min(b.Batches, whole-block*b.Batches)
		list := make([]uint64, k*b.BatchSize)
		for i := range list {
			list[i] = block*b.Batches*b.BatchSize + uint64(i)
		}
		slices.SortStableFunc(list, func(s, t uint64) int { return int(int64(cost(s)) - int64(cost(t))) })
		p := newPerm(newKey("bucket", seed, e.Number(), block), k)
		for q := range k {
			i := p.at(q)
			batch := slices.Sorted(slices.Values(list[i*b.BatchSize : (i+1)*b.BatchSize]))
			for _, t := range batch {
				out = append(out, e.At(t))
			}
		}
	}
	for t := whole * b.BatchSize; t < b.Samples; t++ {
		out = append(out, e.At(t))
	}
	return out
}

func TestBucketsFollowTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := prefix(rapid.SliceOfN(rapid.Uint64Range(0, 9), 1, 20).Draw(t, "chunks")...)
		b := Buckets{
			Batches: rapid.Uint64Range(1, 12).Draw(t, "batches"), BatchSize: rapid.Uint64Range(1, 12).Draw(t, "batch size"), Samples: first[len(first)-1],
		}
		p, err := NewPlan(Params{Shuffle: rapid.SampledFrom([]string{None, Window, Slot, Full}).Draw(t, "shuffle"), Window: 3, Seed: 7}, first)
		if err != nil {
			t.Fatal(err)
		}
		costs := rapid.SliceOfN(rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 2)), int(b.Samples), int(b.Samples)).Draw(t, "costs")
		e := p.Epoch(rapid.Uint64().Draw(t, "epoch"))
		got := bucketed(b, e, 7, costs)
		if want := bucketModel(b, e, 7, costs); !slices.Equal(got, want) {
			t.Fatalf("got samples %v, want %v", got, want)
		}
		if all := slices.Sorted(slices.Values(got)); uint64(len(slices.Compact(all))) != b.Samples {
			t.Fatalf("got samples %v, want each of %d once", got, b.Samples)
		}
	})
}

func TestABlockOfOneBatchChangesNothing(t *testing.T) {
	e := mustPlan(t, Params{Shuffle: Full, Seed: 1}, prefix(100)).Epoch(3)
	got := bucketed(Buckets{Batches: 1, BatchSize: 8, Samples: 100}, e, 1, make([]uint32, 100))
	if want := e.Append(nil, 0, 100); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
