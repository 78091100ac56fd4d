//go:build !race

package shuffle

import (
	"fmt"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

const weightedFile = "testdata/weighted.json"

// weightedVectors are vectors of features added after those in vectors.json, which never changes:
// draws by importance.
type weightedVectors struct {
	Importance []importanceVector `json:"importance"`
}

type importanceVector struct {
	Shuffle     string      `json:"shuffle"`
	Window      uint64      `json:"window"`
	Seed        uint64      `json:"seed"`
	Epoch       uint64      `json:"epoch"`
	Snapshot    string      `json:"importance"`
	Chunks      [][2]uint64 `json:"chunks"`  // runs of chunks: samples per chunk, number of chunks
	Weights     [][2]uint64 `json:"weights"` // runs of samples: weight of each, number of samples
	OrderDigest string      `json:"order_digest"`
	Phase       uint64      `json:"phase"`
	Draws       string      `json:"draws"` // digest of the draws before each chunk, and of all draws
	Positions   []uint64    `json:"positions"`
	Virtual     []uint64    `json:"virtual"`
	Samples     []uint64    `json:"samples"`
	Of          []uint64    `json:"of"`
	DrawsOf     [][2]uint64 `json:"draws_of"`
	Digest      string      `json:"digest,omitempty"`
	Coverage    [2]uint64   `json:"coverage"` // samples that are always drawn, weight of the others
}

func (v *importanceVector) weighing() *weighing {
	w := &weighing{first: (&planVector{Chunks: v.Chunks}).first()}
	for _, run := range v.Weights {
		for range run[1] {
			w.weights = append(w.weights, uint32(run[0]))
		}
	}
	return w
}

// fill computes the outputs of a vector from its inputs.
func (v *importanceVector) fill(t *testing.T) {
	w := v.weighing()
	p, err := NewWeightedPlan(Params{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed, Importance: v.Snapshot}, w.first, w.totals())
	if err != nil {
		t.Fatal(err)
	}
	e := p.Epoch(v.Epoch)
	d, s := e.Draws(), p.Samples()
	v.OrderDigest, v.Phase, v.Draws = p.OrderDigest(), d.phase, digestOf(d.First())
	v.Positions, v.Virtual, v.Samples, v.Of, v.DrawsOf = nil, nil, nil, nil, nil
	pick := newKey("vector", v.Seed, v.Epoch)
	for i := range min(s, 6) {
		at := pick.draw(i, s)
		virtual := e.At(at)
		v.Positions, v.Virtual = append(v.Positions, at), append(v.Virtual, virtual)
		v.Samples = append(v.Samples, w.sample(p, d, virtual))
		x := pick.draw(i+100, s)
		chunk := int(p.chunks.of(x))
		lo, hi := d.Of(chunk, w.of(chunk), x-p.chunks[chunk])
		v.Of, v.DrawsOf = append(v.Of, x), append(v.DrawsOf, [2]uint64{lo, hi})
	}
	if s <= 2000 {
		samples := e.Append(nil, 0, s)
		for i, virtual := range samples {
			samples[i] = w.sample(p, d, virtual)
		}
		v.Digest = digestOf(samples)
	}
	stats := NewWeightStats(s, d.total)
	stats.Add(w.weights)
	v.Coverage = [2]uint64{stats.always, stats.rest}
}

// weightedInputs returns the inputs of the vectors.
func weightedInputs() weightedVectors {
	k := newKey("weighted inputs")
	var v weightedVectors
	shapes := [][][2]uint64{
		{{1, 1}}, {{7, 1}}, {{3, 1}, {0, 1}, {5, 1}, {2, 1}, {4, 1}}, {{10, 12}}, {{1, 150}}, {{129, 7}}, {{0, 2}, {40, 30}, {0, 3}, {41, 7}}, {{128, 12}}, {{1000, 100}},
	}
	for i := range uint64(60) {
		shape := shapes[i/4%uint64(len(shapes))]
		if i >= 36 {
			shape = nil
			for j := range 2 + k.draw(i, 30) {
				shape = append(shape, [2]uint64{k.draw(i<<8|j, 50) + j%2, 1 + k.draw(i<<8|j+128, 3)})
			}
		}
		first := (&planVector{Chunks: shape}).first()
		v.Importance = append(v.Importance, importanceVector{
			Shuffle:  []string{Slot, Window, Full, None}[i%4],
			Window:   []uint64{1, 2, 5, 8, 64, 1 << 20}[k.draw(i+1000, 6)],
			Seed:     []uint64{0, 42, k.word(i + 2000)}[i%3],
			Epoch:    []uint64{0, 1, 7, 1<<32 + 1, 1<<64 - 1}[i%5],
			Snapshot: fmt.Sprintf("%016x", k.word(i+3000))[:1+i%16],
			Chunks:   shape, Weights: weightRuns(k.with(i), i%5, first[len(first)-1]),
		})
	}
	return v
}

// weightRuns returns weights of a kind for s samples: by rank; few or zero except one; random;
// triple for one in five; very large.
func weightRuns(k key, kind, s uint64) [][2]uint64 {
	var runs [][2]uint64
	for i := uint64(0); s > 0; i++ {
		weight := []uint64{150_902 + k.draw(i, 400_000), k.draw(i, 8) / 7, k.draw(i, 1<<32), 65_536, 1<<32 - 1}[kind]
		if kind == 3 && i%5 == 0 {
			weight *= 3
		}
		if i == 0 {
			weight += 7
			weight = min(weight, 1<<32-1)
		}
		n := min(s, 1+k.draw(i+1<<20, 1+s/64))
		runs = append(runs, [2]uint64{weight, n})
		s -= n
	}
	return runs
}

func TestWeightedVectors(t *testing.T) {
	got := weightedInputs()
	for i := range got.Importance {
		got.Importance[i].fill(t)
	}
	want := vectors.Hold(t, weightedFile, *update, got)
	if len(want.Importance) < 50 {
		t.Errorf("got %d vectors, want at least 50", len(want.Importance))
	}
}

func TestPythonReproducesTheWeightedVectors(t *testing.T) {
	vectors.Python(t, "../client/python/tests/order_vectors.py", weightedFile)
}
