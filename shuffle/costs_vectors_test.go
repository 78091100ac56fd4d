//go:build !race

package shuffle

import (
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

const costsFile = "testdata/costs.json"

// costsVectors are vectors of shares of equal cost, and of batches of similar cost.
type costsVectors struct {
	Balance []balanceCosts  `json:"balance"`
	Bucket  []bucketsVector `json:"bucket"`
}

type balanceCosts struct {
	Costs     []uint32     `json:"costs"`
	WorldSize uint64       `json:"world_size"`
	Micro     uint64       `json:"micro"`
	Shares    [][][]uint32 `json:"shares"` // of each rank, the places of each micro-batch
}

type bucketsVector struct {
	Shuffle     string      `json:"shuffle"`
	Window      uint64      `json:"window"`
	Seed        uint64      `json:"seed"`
	Epoch       uint64      `json:"epoch"`
	Chunks      [][2]uint64 `json:"chunks"`
	BatchSize   uint64      `json:"batch_size"`
	Bucket      uint64      `json:"bucket"`
	Cost        string      `json:"cost"`  // name of the costs
	Costs       []uint32    `json:"costs"` // of each sample
	OrderDigest string      `json:"order_digest"`
	Digest      string      `json:"digest"` // of the samples in the order of the epoch
}

func (v *balanceCosts) fill() {
	v.Shares = make([][][]uint32, v.WorldSize)
	d := Divide(v.Costs, v.WorldSize)
	for rank := range v.Shares {
		share := d.Share(uint64(rank))
		costs := make([]uint32, len(share))
		for i, place := range share {
			costs[i] = v.Costs[place]
		}
		own := Divide(costs, v.Micro)
		for m := range v.Micro {
			places := []uint32{}
			for _, i := range own.Share(m) {
				places = append(places, share[i])
			}
			v.Shares[rank] = append(v.Shares[rank], places)
		}
	}
}

func (v *bucketsVector) fill(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed}, (&planVector{Chunks: v.Chunks}).first())
	b := Buckets{Batches: v.Bucket, BatchSize: v.BatchSize, Samples: p.Samples()}
	v.Digest = digestOf(bucketed(b, p.Epoch(v.Epoch), v.Seed, v.Costs))
	if v.OrderDigest = p.OrderDigest(); v.Bucket > 1 {
		v.OrderDigest = BucketDigest(v.OrderDigest, v.Bucket, v.BatchSize, v.Cost)
	}
}

// costsInputs returns the inputs of the vectors.
func costsInputs() costsVectors {
	k := newKey("costs inputs")
	var v costsVectors
	costs := func(i, n uint64) []uint32 {
		out := make([]uint32, n)
		for j := range out {
			out[j] = uint32(k.draw(i<<16|uint64(j), []uint64{3, 100, 1 << 32}[i%3]))
		}
		return out
	}
	for i := range uint64(60) {
		n := k.draw(i+4000, 40) + i%2*20
		if i%20 == 19 {
			n = 300
		}
		v.Balance = append(v.Balance, balanceCosts{Costs: costs(i, n), WorldSize: 1 + i%9, Micro: 1 + k.draw(i+5000, 4)})
	}
	shapes := [][][2]uint64{{{1, 1}}, {{7, 1}}, {{3, 1}, {0, 1}, {5, 1}, {2, 1}, {4, 1}}, {{10, 12}}, {{1, 150}}, {{129, 7}}, {{41, 20}}}
	for i := range uint64(40) {
		b := bucketsVector{
			Shuffle: []string{Slot, Window, Full, None}[i%4],
			Window:  []uint64{1, 2, 5, 64}[k.draw(i+1000, 4)],
			Seed:    []uint64{0, 42, k.word(i + 2000)}[i%3],
			Epoch:   []uint64{0, 1, 7, 1<<32 + 1, 1<<64 - 1}[i%5],
			Chunks:  shapes[k.draw(i+6000, uint64(len(shapes)))], BatchSize: 1 + k.draw(i+7000, 20), Bucket: 1 + k.draw(i+8000, []uint64{6, 200}[i/20]),
			Cost: []string{"bytes", "5c0e1f", "5c0e1f,00aa11"}[i%3],
		}
		first := (&planVector{Chunks: b.Chunks}).first()
		b.Costs = costs(i+100, first[len(first)-1])
		v.Bucket = append(v.Bucket, b)
	}
	return v
}

func TestCostsVectors(t *testing.T) {
	got := costsInputs()
	for i := range got.Balance {
		got.Balance[i].fill()
	}
	for i := range got.Bucket {
		got.Bucket[i].fill(t)
	}
	want := vectors.Hold(t, costsFile, *update, got)
	if len(want.Balance) < 50 || len(want.Bucket) < 30 {
		t.Errorf("got %d and %d vectors, want at least 50 and 30", len(want.Balance), len(want.Bucket))
	}
}

func TestPythonReproducesTheCostsVectors(t *testing.T) {
	vectors.Python(t, "../client/python/tests/order_vectors.py", costsFile)
}
