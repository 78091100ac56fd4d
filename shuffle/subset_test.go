package shuffle

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// split is a dataset cut into two subsets. It has a bitmap of one of them for each chunk.
type split struct {
	first   []uint64
	bitmaps [][]byte
}

func drawSplit(t *rapid.T) split {
	s := split{first: prefix(rapid.SliceOfN(rapid.Uint64Range(0, 150), 1, 8).Draw(t, "chunks")...)}
	for i := range len(s.first) - 1 {
		n := s.first[i+1] - s.first[i]
		b := rapid.SliceOfN(rapid.Byte(), int(n+7)/8, int(n+7)/8).Draw(t, "bitmap")
		if n%8 != 0 {
			b[n/8] &= 1<<(n%8) - 1
		}
		s.bitmaps = append(s.bitmaps, b)
	}
	return s
}

// members returns the samples of the subset, and their prefix sums by chunk.
func (s split) members() (samples, first []uint64) {
	first = []uint64{0}
	for i, b := range s.bitmaps {
		for k := range s.first[i+1] - s.first[i] {
			if b[k/8]>>(k%8)&1 == 1 {
				samples = append(samples, s.first[i]+k)
			}
		}
		first = append(first, uint64(len(samples)))
	}
	return samples, first
}

// stored returns the sample of the dataset for virtual sample v.
func (s split) stored(m *Members, v uint64) uint64 {
	chunk := m.first.of(v)
	return s.first[chunk] + m.Sample(int(chunk), s.bitmaps[chunk], v)
}

func TestSubsetPlanDeliversItsMembersOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSplit(t)
		samples, members := s.members()
		params := Params{
			Shuffle: rapid.SampledFrom([]string{None, Window, Slot, Full}).Draw(t, "shuffle"), Window: rapid.Uint64Range(1, 9).Draw(t, "window"),
			Seed: rapid.Uint64().Draw(t, "seed"), Subset: "it",
		}
		p, err := NewSubsetPlan(params, s.first, members)
		if err != nil {
			t.Fatal(err)
		}
		params.Subset = ""
		plain, err := NewPlan(params, members)
		if err != nil {
			t.Fatal(err)
		}
		e := p.Epoch(3)
		virtual := e.Append(nil, 0, p.Samples())
		if want := plain.Epoch(3).Append(nil, 0, plain.Samples()); !slices.Equal(virtual, want) {
			t.Fatalf("the order of the counts: got %v, want %v", virtual, want)
		}
		if p.OrderDigest() == plain.OrderDigest() {
			t.Fatal("a subset and a dataset of its counts have the same digest")
		}
		var got []uint64
		for _, v := range virtual {
			x := s.stored(p.Members(), v)
			chunk := chunkTable(s.first).of(x)
			if back, ok := p.Members().Of(int(chunk), s.bitmaps[chunk], x-s.first[chunk]); !ok || back != v {
				t.Fatalf("sample %d: got virtual sample %d %v, want %d", x, back, ok, v)
			}
			got = append(got, x)
		}
		slices.Sort(got)
		if !slices.Equal(got, samples) {
			t.Fatalf("got %v, want %v", got, samples)
		}
		for x := range s.first[len(s.first)-1] {
			chunk := chunkTable(s.first).of(x)
			_, ok := p.Members().Of(int(chunk), s.bitmaps[chunk], x-s.first[chunk])
			if _, want := slices.BinarySearch(samples, x); ok != want {
				t.Fatalf("sample %d is of the subset: got %v, want %v", x, ok, want)
			}
		}
		if _, ok := (Cursor{Plan: p, Epoch: e, BatchSize: 1}).Later(nil, 0); ok {
			t.Fatal("the next samples of a reader have numbers of the subset")
		}
	})
}

func TestSubsetPlanRefuses(t *testing.T) {
	first := []uint64{0, 2, 5}
	for name, c := range map[string]struct {
		params  Params
		first   []uint64
		members []uint64
		want    string
	}{
		"no name":          {Params{Shuffle: None}, first, []uint64{0, 1, 2}, "params.Subset is empty"},
		"importance":       {Params{Shuffle: None, Subset: "a", Importance: "b"}, first, []uint64{0, 1, 2}, "cannot be combined"},
		"too few sums":     {Params{Shuffle: None, Subset: "a"}, first, []uint64{0, 1}, "covers 1 chunks, want 2"},
		"too many members": {Params{Shuffle: None, Subset: "a"}, first, []uint64{0, 3, 4}, "chunk 0 has 3 members"},
		"descending":       {Params{Shuffle: None, Subset: "a"}, first, []uint64{0, 2, 1}, "descend"},
		"bad chunks":       {Params{Shuffle: None, Subset: "a"}, []uint64{1}, []uint64{0}, "begin with 0"},
	} {
		if _, err := NewSubsetPlan(c.params, c.first, c.members); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, err := NewPlan(Params{Shuffle: None, Subset: "a"}, first); err == nil {
		t.Error("a plan without the members of its subset was made")
	}
	if _, err := NewWeightedPlan(Params{Shuffle: None, Subset: "a", Importance: "b"}, first, []uint64{1, 1}); err == nil {
		t.Error("a plan with weights and a subset was made")
	}
}
