package datapath

import (
	"slices"
	"testing"
)

// One store read loads consecutive chunks of a shard, up to the length of a part and not a byte
// more.
func TestSource_GroupsChunksUpToAPart(t *testing.T) {
	d := newDataset(t, 8, same(40, 3000), 20, 10_000) // two shards of several chunks
	p := newPath(t, Config{Budget: bud(1 << 20)})
	s := p.Open(d.index, d.store, "set/")
	length := func(chunks ...int) (n int64) {
		for _, c := range chunks {
			n += d.index.Extents(c)[0].Length
		}
		return n
	}
	last := 0 // the last chunk of the first shard
	for d.index.Extents(last + 1)[0].Shard == 0 {
		last++
	}
	for _, c := range []struct {
		name   string
		chunks []int
		part   int64
		want   [][]int
	}{
		{"none", nil, 1, nil},
		{"two that fill a part", []int{0, 1, 2}, length(0, 1), [][]int{{0, 1}, {2}}},
		{"a byte less", []int{0, 1}, length(0, 1) - 1, [][]int{{0}, {1}}},
		{"a chunk between them", []int{0, 2}, 1 << 20, [][]int{{0}, {2}}},
		{"of two shards", []int{last, last + 1}, 1 << 20, [][]int{{last}, {last + 1}}},
		{"each longer than a part", []int{0, 1}, 1, [][]int{{0}, {1}}},
	} {
		if got := s.group(c.chunks, c.part); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got groups %v, want %v", c.name, got, c.want)
		}
	}
}
