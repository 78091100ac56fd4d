package shuffle

import (
	"fmt"
	"testing"
)

// The home groups of a chunk are the groups from the first to the last home group of its samples.
func TestHomeGroupsAreThoseOfTheSamples(t *testing.T) {
	sizes := []uint64{5, 0, 40, 1, 33, 7, 7, 7, 90, 2, 16, 16, 0, 61, 3, 12}
	first := []uint64{0}
	for _, n := range sizes {
		first = append(first, first[len(first)-1]+n)
	}
	for _, params := range []Params{
		{Shuffle: Slot, Window: 3, Seed: 1},
		{Shuffle: Slot, Window: 12, Seed: 1},
		{Shuffle: Slot, Window: 500, Seed: 1},
		{Shuffle: Window, Window: 4, Strata: 4, Seed: 1},
		{Shuffle: Window, Window: 4, Seed: 1},
		{Shuffle: Full},
	} {
		p, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		most := p.mostHomes()
		for homes := uint64(1); homes <= max(most, 1); homes++ {
			e := p.Epoch(3)
			groups := map[int]map[uint32]bool{}
			if most > 0 {
				home := e.appendHomes(nil, Share{Count: p.Samples()}, homes)
				for at, g := range home {
					c := int(p.chunks.of(e.At(uint64(at))))
					if groups[c] == nil {
						groups[c] = map[uint32]bool{}
					}
					groups[c][g] = true
				}
			}
			for c := range len(sizes) + 1 {
				from, to, ok := p.HomeGroups(uint64(c), homes)
				want := groups[c]
				if got := fmt.Sprint(ok, from, to); ok != (len(want) > 0) || ok && (int(to-from)+1 != len(want) || !want[uint32(from)] || !want[uint32(to)]) {
					t.Errorf("%+v, %d homes, chunk %d: got %s, want %v", params, homes, c, got, want)
				}
			}
		}
	}
}
