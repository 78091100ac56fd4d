//go:build !race

package shuffle

import (
	"flag"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/vectors"
)

var update = flag.Bool("update", false, "rewrite testdata/vectors.json; an order that was released never changes")

const vectorsFile = "testdata/vectors.json"

type orderVectors struct {
	Generator []generatorVector `json:"generator"`
	Plans     []planVector      `json:"plans"`
}

type generatorVector struct {
	Purpose string   `json:"purpose"`
	Numbers []uint64 `json:"numbers"`
	Key     uint64   `json:"key"`
	Words   []uint64 `json:"words"`
	Bounds  []uint64 `json:"bounds"`
	Draws   []uint64 `json:"draws"`
	N       uint64   `json:"n"`
	Places  []uint64 `json:"places"`
	Perm    []uint64 `json:"perm"`
}

type planVector struct {
	Shuffle   string        `json:"shuffle"`
	Window    uint64        `json:"window"`
	Seed      uint64        `json:"seed"`
	Epoch     uint64        `json:"epoch"`
	Chunks    [][2]uint64   `json:"chunks"` // runs of chunks: samples per chunk, number of chunks
	Samples   uint64        `json:"samples"`
	BatchSize uint64        `json:"batch_size"`
	Tail      Tail          `json:"tail"`
	WorldSize uint64        `json:"world_size"`
	Positions []uint64      `json:"positions"`
	At        []uint64      `json:"at"`
	Of        []uint64      `json:"of"`
	Position  []uint64      `json:"position"`
	Digest    string        `json:"digest,omitempty"`
	Batches   uint64        `json:"batches"`
	Shares    []shareVector `json:"shares"`
}

type shareVector struct {
	Batch  uint64 `json:"batch"`
	Rank   uint64 `json:"rank"`
	Count  uint64 `json:"count"`
	Padded uint64 `json:"padded"`
	Digest string `json:"digest"`
}

// fill computes the outputs of a vector from its inputs.
func (v *generatorVector) fill() {
	k := newKey(v.Purpose, v.Numbers...)
	v.Key, v.Words, v.Draws, v.Places, v.Perm = uint64(k), nil, nil, []uint64{}, []uint64{}
	for c := range uint64(4) {
		v.Words = append(v.Words, k.word(c))
	}
	for i, n := range v.Bounds {
		v.Draws = append(v.Draws, k.draw(uint64(i), n))
	}
	p := newPerm(k, v.N)
	for i := range min(v.N, 20) {
		v.Places = append(v.Places, mulDiv(i, v.N, min(v.N, 20)))
		v.Perm = append(v.Perm, p.at(v.Places[i]))
	}
}

func (v *planVector) first() []uint64 {
	first := []uint64{0}
	for _, run := range v.Chunks {
		for range run[1] {
			first = append(first, first[len(first)-1]+run[0])
		}
	}
	return first
}

// fill computes the outputs of a vector from its inputs.
func (v *planVector) fill(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: v.Shuffle, Window: v.Window, Seed: v.Seed}, v.first())
	e := p.Epoch(v.Epoch)
	s := p.Samples()
	v.Samples = s
	v.Positions, v.At, v.Of, v.Position, v.Shares = []uint64{}, []uint64{}, []uint64{}, []uint64{}, []shareVector{}
	pick := newKey("vector", v.Seed, v.Epoch)
	for i := range min(s, 6) {
		at := pick.draw(i, s)
		switch i {
		case 0:
			at = 0
		case 1:
			at = s - 1
		}
		v.Positions = append(v.Positions, at)
		v.At = append(v.At, e.At(at))
		x := pick.draw(i+100, s)
		v.Of = append(v.Of, x)
		v.Position = append(v.Position, e.Position(x))
	}
	if s <= 2000 {
		v.Digest = digestOf(e.Append(nil, 0, s))
	}
	b := Batching{Samples: s, BatchSize: v.BatchSize, Tail: v.Tail}
	v.Batches = b.Batches()
	for i := range min(v.Batches, 3) {
		m := []uint64{0, v.Batches - 1, v.Batches / 2}[i]
		for rank := range v.WorldSize {
			share := b.Share(m, rank, v.WorldSize)
			v.Shares = append(v.Shares, shareVector{
				Batch: m, Rank: rank, Count: share.Count, Padded: share.Padded,
				Digest: digestOf(e.AppendShare(nil, share)),
			})
		}
	}
}

// vectorInputs returns the inputs of the vectors.
func vectorInputs() orderVectors {
	var v orderVectors
	for i, n := range []uint64{0, 1, 2, 3, 10, 127, 128, 129, 130, 1000, 4097, 65537, 1e6, 1e9, 1<<40 + 7, 1<<62 + 1} {
		v.Generator = append(v.Generator, generatorVector{
			Purpose: []string{"chunks", "window", "lane", "row", "piece", "full", "", "strata-row"}[i%8],
			Numbers: []uint64{0, 42, 1<<64 - 1, 1 << 32}[:i%5],
			Bounds:  []uint64{1, 2, 3, 10, 1 << 32, 1<<63 + 1, 1<<64 - 1, 3 << 62},
			N:       n,
		})
	}
	shapes := [][][2]uint64{
		{},
		{{0, 3}},
		{{1, 1}},
		{{7, 1}},
		{{2000, 1}},
		{{1, 9}},
		{{10, 12}},
		{{3, 64}},
		{{128, 8}},
		{{129, 7}},
		{{0, 2}, {5, 1}, {0, 1}, {9, 3}, {1, 4}},
		{{1000, 1}, {1, 20}, {0, 5}, {300, 2}},
		{{17, 13}, {23, 11}, {1, 2}},
		{{1, 700}},
		{{100, 10}, {0, 1}, {250, 3}},
		{{40, 30}, {41, 7}},
		{{128, 512}},
		{{1000, 100}, {900, 1}, {1100, 50}},
		{{1e6, 1000}},
		{{1e9, 1}},
		{{250000, 4000}},
		{{1e8 - 1, 7}, {3e8 + 7, 1}, {2, 1000}},
	}
	windows := []uint64{1, 2, 3, 5, 8, 16, 100, 128, 1000, 1<<64 - 1}
	tails := []Tail{Short, Drop, Pad}
	k := newKey("inputs")
	for i := range uint64(264) {
		shape := shapes[i/4*3%uint64(len(shapes))]
		if i >= 220 { // unequal chunks, including empty ones
			shape = nil
			for j := range 2 + k.draw(i, 40) {
				shape = append(shape, [2]uint64{k.draw(i<<8|j, 1+uint64(90)*(i%3)), 1 + k.draw(i<<8|j+128, 3)})
			}
		}
		shuffle, window := []string{Slot, Window, Full, None}[i%4], windows[k.draw(i+1000, uint64(len(windows)))]
		if shuffle == Slot {
			window = min(window, 5000)
		}
		v.Plans = append(v.Plans, planVector{
			Shuffle: shuffle,
			Window:  window,
			Seed:    []uint64{0, 1, 42, k.word(i + 2000)}[i/4%4],
			Epoch:   []uint64{0, 1, 7, 1 << 32, 1<<32 + 1, 1<<63 + i, 1<<64 - 1}[i%7],
			Chunks:  append([][2]uint64{}, shape...), BatchSize: []uint64{1, 2, 7, 32, 256, 1000, 4096}[i/3%7],
			Tail: tails[i%3], WorldSize: i%8 + 1,
		})
	}
	return v
}

func TestVectors(t *testing.T) {
	got := vectorInputs()
	for i := range got.Generator {
		got.Generator[i].fill()
	}
	for i := range got.Plans {
		got.Plans[i].fill(t)
	}
	want := vectors.Hold(t, vectorsFile, *update, got)
	if len(want.Plans) < 200 {
		t.Errorf("got %d plans, want at least 200", len(want.Plans))
	}
}

func TestPythonReproducesTheVectors(t *testing.T) {
	vectors.Python(t, "../client/python/tests/order_vectors.py", vectorsFile)
}
