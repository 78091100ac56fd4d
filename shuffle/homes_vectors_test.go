//go:build !race

package shuffle

import (
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

const homesFile = "testdata/homes.json"

// homesVectors are vectors of features added after those in weighted.json: strata, and shares that
// follow homes.
type homesVectors struct {
	Strata []strataVector `json:"strata"`
	Homes  []homesVector  `json:"homes"`
}

// HomedPlan has the parameters of a vector's plan (exported for go-cmp, which compares only
// exported fields). If it has weights, its samples are virtual samples.
type HomedPlan struct {
	Shuffle  string      `json:"shuffle"`
	Window   uint64      `json:"window"`
	Strata   uint64      `json:"strata"`
	Seed     uint64      `json:"seed"`
	Epoch    uint64      `json:"epoch"`
	Chunks   [][2]uint64 `json:"chunks"` // runs of chunks: samples per chunk, number of chunks
	Snapshot string      `json:"importance"`
	Weights  [][2]uint64 `json:"weights,omitempty"` // runs of samples: weight of each, number of samples
}

type strataVector struct {
	HomedPlan
	OrderDigest string   `json:"order_digest"`
	Stratum     []uint64 `json:"stratum"` // strata of the first chunks
	Positions   []uint64 `json:"positions"`
	At          []uint64 `json:"at"`
	Of          []uint64 `json:"of"`
	Position    []uint64 `json:"position"`
	Digest      string   `json:"digest"`
}

type homesVector struct {
	HomedPlan
	BatchSize uint64       `json:"batch_size"`
	Tail      Tail         `json:"tail"`
	WorldSize uint64       `json:"world_size"`
	Homes     uint64       `json:"homes"`
	Bad       []uint64     `json:"bad,omitempty"` // samples in quarantine
	Home      [][2]uint64  `json:"home"`          // homes of the first chunks
	Deals     []dealVector `json:"deals"`
}

type dealVector struct {
	Batch  uint64  `json:"batch"`
	Shares [][]int `json:"shares"`
	Digest string  `json:"digest"` // digest of the samples of all ranks, rank after rank
}

func (v *HomedPlan) plan(t *testing.T) *Plan {
	params := Params{Shuffle: v.Shuffle, Window: v.Window, Strata: v.Strata, Seed: v.Seed, Importance: v.Snapshot}
	if v.Snapshot == "" {
		return mustPlan(t, params, (&planVector{Chunks: v.Chunks}).first())
	}
	w := (&importanceVector{Chunks: v.Chunks, Weights: v.Weights}).weighing()
	p, err := NewWeightedPlan(params, w.first, w.totals())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill computes the outputs of a vector from its inputs.
func (v *strataVector) fill(t *testing.T) {
	p := v.plan(t)
	e, s := p.Epoch(v.Epoch), p.Samples()
	v.OrderDigest, v.Digest = p.OrderDigest(), digestOf(e.Append(nil, 0, s))
	v.Stratum, v.Positions, v.At, v.Of, v.Position = []uint64{}, []uint64{}, []uint64{}, []uint64{}, []uint64{}
	for c := range uint64(min(20, p.chunks.len())) {
		place, _ := p.Home(c)
		v.Stratum = append(v.Stratum, place)
	}
	pick := newKey("vector", v.Seed, v.Epoch)
	for i := range min(s, 6) {
		at, x := pick.draw(i, s), pick.draw(i+100, s)
		v.Positions, v.At = append(v.Positions, at), append(v.At, e.At(at))
		v.Of, v.Position = append(v.Of, x), append(v.Position, e.Position(x))
	}
}

// fill computes the outputs of a vector from its inputs.
func (v *homesVector) fill(t *testing.T) {
	p := v.plan(t)
	e := p.Epoch(v.Epoch)
	v.Home, v.Deals = [][2]uint64{}, []dealVector{}
	for c := range uint64(min(20, p.chunks.len())) {
		place, of := p.Home(c)
		v.Home = append(v.Home, [2]uint64{place, of})
	}
	b := Batching{Samples: p.Samples(), BatchSize: v.BatchSize, Tail: v.Tail}
	q, err := NewQuarantine(v.Seed, e.plan.chunks, v.Bad)
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(b.Batches(), 3) {
		d := dealVector{Batch: []uint64{0, b.Batches() - 1, b.Batches() / 2}[i]}
		for rank := range v.WorldSize {
			d.Shares = append(d.Shares, e.DealHomes(b.Share(d.Batch, 0, 1), rank, v.WorldSize, v.Homes))
		}
		whole := e.AppendShare(nil, b.Share(d.Batch, 0, 1))
		var samples []uint64
		for _, share := range d.Shares {
			for _, place := range share {
				samples = append(samples, whole[place])
			}
		}
		q.Replace(v.Epoch, samples)
		d.Digest = digestOf(samples)
		v.Deals = append(v.Deals, d)
	}
}

// homesInputs returns the inputs of the vectors.
func homesInputs() homesVectors {
	k := newKey("homes inputs")
	shapes := [][][2]uint64{
		{{1, 1}}, {{7, 3}}, {{0, 2}, {5, 1}, {0, 1}, {9, 3}, {1, 4}}, {{3, 64}}, {{10, 12}}, {{1, 150}}, {{17, 13}, {23, 11}, {1, 2}}, {{4, 130}}, {{1, 300}},
	}
	at := func(i uint64) HomedPlan {
		shape := shapes[i/2%uint64(len(shapes))]
		if i%3 == 2 { // unequal chunks, including empty ones
			shape = nil
			for j := range 2 + k.draw(i, 30) {
				shape = append(shape, [2]uint64{k.draw(i<<8|j, 20) + j%2, 1 + k.draw(i<<8|j+128, 3)})
			}
		}
		strata := []uint64{1, 2, 3, 5, 8, 16, 64, 130}[k.draw(i+1000, 8)]
		p := HomedPlan{
			Shuffle: Window, Window: strata * (1 + k.draw(i+2000, 4)), Strata: strata, Seed: []uint64{0, 42, k.word(i + 3000)}[i%3],
			Epoch: []uint64{0, 1, 7, 1<<32 + 1, 1<<64 - 1}[i%5], Chunks: shape,
		}
		if i%4 == 3 {
			first := (&planVector{Chunks: shape}).first()
			p.Snapshot, p.Weights = "5c0e1f", weightRuns(k.with(i), i%5, first[len(first)-1])
		}
		return p
	}
	var v homesVectors
	v.Strata = append(v.Strata, strataVector{HomedPlan: HomedPlan{Shuffle: Window, Window: 4, Strata: 4, Chunks: [][2]uint64{}}})
	for i := range uint64(60) {
		v.Strata = append(v.Strata, strataVector{HomedPlan: at(i)})
	}
	for i := range uint64(60) {
		plan := at(i + 500)
		if i%2 == 1 {
			plan.Shuffle, plan.Strata = Slot, 0
		}
		world := 1 + k.draw(i+5000, 12)
		var bad []uint64
		if first := (&planVector{Chunks: plan.Chunks}).first(); plan.Snapshot == "" && i%3 > 0 {
			for x := range first[len(first)-1] - 1 { // one sample in seven, and all samples of the first chunks
				if k.with(i).draw(x, 7) == 0 || x < 4 {
					bad = append(bad, x)
				}
			}
		}
		v.Homes = append(v.Homes, homesVector{
			HomedPlan: plan, BatchSize: []uint64{1, 7, 16, 30}[k.draw(i+4000, 4)], Tail: []Tail{Short, Drop, Pad}[i%3], WorldSize: world, Homes: 1 + k.draw(i+6000, world), Bad: bad,
		})
	}
	return v
}

func TestHomesVectors(t *testing.T) {
	got := homesInputs()
	for i := range got.Strata {
		got.Strata[i].fill(t)
	}
	for i := range got.Homes {
		got.Homes[i].fill(t)
	}
	want := vectors.Hold(t, homesFile, *update, got)
	if len(want.Strata) < 50 || len(want.Homes) < 50 {
		t.Errorf("got %d and %d vectors, want at least 50 of each", len(want.Strata), len(want.Homes))
	}
}

func TestPythonReproducesTheHomesVectors(t *testing.T) {
	vectors.Python(t, "../client/python/tests/order_vectors.py", homesFile)
}
