package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fleet returns p members; weight is that of the i-th.
func fleet(p int, weight func(i int) uint64) []Member {
	members := make([]Member, p)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("gw-%d", i), Weight: weight(i)}
	}
	return members
}

func alike(int) uint64 { return 8 << 30 }

// owned returns the owner's ID of every one of n chunks without homes.
func owned(v *View, n int) []string {
	ids := make([]string, n)
	for c := range ids {
		ids[c] = v.Members()[v.Owner(digestOf(uint64(c)), 0, 0, nil)].ID
	}
	return ids
}

// TestLosingAMemberMovesOnlyItsChunks holds what rendezvous is for.
func TestLosingAMemberMovesOnlyItsChunks(t *testing.T) {
	for _, c := range []struct {
		p      int
		weight func(int) uint64
	}{{4, alike}, {8, alike}, {8, func(i int) uint64 { return uint64(i+1) << 30 }}, {40, alike}} {
		members := fleet(c.p, c.weight)
		n := 2000 * c.p
		before := owned(NewView(members), n)
		for _, lost := range []int{0, c.p / 2, c.p - 1} {
			after := owned(NewView(slices.Delete(slices.Clone(members), lost, lost+1)), n)
			moved := 0
			heirs := map[string]int{}
			for i := range before {
				if before[i] != after[i] {
					moved++
					heirs[after[i]]++
					if before[i] != members[lost].ID {
						t.Fatalf("%d members without %s: chunk %d of %s goes to %s, want it to stay", c.p, members[lost].ID, i, before[i], after[i])
					}
				}
			}
			share := float64(moved) / float64(n)
			want := NewView(members).Share(slices.IndexFunc(NewView(members).Members(), func(m Member) bool { return m.ID == members[lost].ID }))
			t.Logf("figure: chunks with another owner after losing %s of %d: %.1f %%, by its weight %.1f %%", members[lost].ID, c.p, 100*share, 100*want)
			if math.Abs(share-want) > .08*want+.002 {
				t.Errorf("%d members without %s: got %.4f of the chunks moved, want %.4f", c.p, members[lost].ID, share, want)
			}
			if len(heirs) != c.p-1 {
				t.Errorf("%d members without %s: its chunks go to %d others, want to all %d", c.p, members[lost].ID, len(heirs), c.p-1)
			}
		}
	}
}

func TestLoadIsEven(t *testing.T) {
	for _, c := range []struct {
		name   string
		weight func(int) uint64
	}{
		{"equal", alike},
		{"1 to 4 GiB", func(i int) uint64 { return uint64(i%4+1) << 30 }},
		{"all different", func(i int) uint64 { return 5<<30 + uint64(i)*123_456_789 }},
		{"huge", func(i int) uint64 { return math.MaxUint64 - uint64(i%2)<<62 }},
	} {
		for _, p := range []int{2, 4, 8, 32} {
			v := NewView(fleet(p, c.weight))
			n := 0
			for i := range p { // from 2,000 chunks up for the lightest
				n = max(n, int(math.Ceil(2000/v.Share(i))))
			}
			count := map[string]int{}
			for _, id := range owned(v, n) {
				count[id]++
			}
			most := 0.
			for i, m := range v.Members() {
				most = max(most, float64(count[m.ID])/(v.Share(i)*float64(n)))
			}
			t.Logf("figure: fullest of %d members, weights %s, %d chunks: %.3f of its part", p, c.name, n, most)
			if most > 1.07 {
				t.Errorf("%d members, weights %s: got a load of %.3f times its part, want at most 1.07", p, c.name, most)
			}
		}
	}
}

func TestOrdinalsShareLanesExactly(t *testing.T) {
	members := fleet(8, alike)
	for i := range members {
		members[i].Ordinal, members[i].Of = i, 8
	}
	v := NewView(members)
	count := map[string]int{}
	for lane := range uint64(128) {
		i := v.Owner(digestOf(lane), lane, 128, nil)
		count[v.Members()[i].ID]++
		if got, want := v.Members()[i].Ordinal, int(lane)*8/128; got != want {
			t.Errorf("lane %d: got ordinal %d, want %d", lane, got, want)
		}
	}
	for i, m := range v.Members() {
		if count[m.ID] != 16 {
			t.Errorf("%s: got %d lanes of 128, want 16", m.ID, count[m.ID])
		}
		if got := v.Share(i); got != .125 {
			t.Errorf("share of %s: got %v, want .125", m.ID, got)
		}
	}
	if got := v.Conflicts(); len(got) != 0 {
		t.Errorf("got conflicts %q, want none", got)
	}
}

// TestAMissingOrdinalIsSpread takes one gateway out, by its absence and by skipping it: the lanes of the others stay, its own are spread chunk by chunk.
func TestAMissingOrdinalIsSpread(t *testing.T) {
	members := fleet(8, alike)
	for i := range members {
		members[i].Ordinal, members[i].Of = i, 8
	}
	v, without := NewView(members), NewView(slices.Delete(slices.Clone(members), 3, 4))
	third := func(i int) bool { return i == 3 }
	heirs := map[string]int{}
	for c := range uint64(8000) {
		lane := c % 64
		got := without.Members()[without.Owner(digestOf(c), lane, 64, nil)].ID
		if skipped := v.Members()[v.Owner(digestOf(c), lane, 64, third)].ID; skipped != got {
			t.Fatalf("chunk %d: got %s where gw-3 is skipped, %s where it is gone", c, skipped, got)
		}
		if lane*8/64 != 3 {
			if want := fmt.Sprintf("gw-%d", lane*8/64); got != want {
				t.Fatalf("chunk %d of lane %d: got %s, want %s as before", c, lane, got, want)
			}
			continue
		}
		heirs[got]++
	}
	for _, m := range without.Members() {
		if n := heirs[m.ID]; n < 100 || n > 190 {
			t.Errorf("%s: got %d of the 1000 chunks of gw-3, want about 143", m.ID, n)
		}
	}
	if got, want := without.Share(0), 1./8+1./8/7; math.Abs(got-want) > 1e-12 {
		t.Errorf("share without gw-3: got %v, want %v", got, want)
	}
}

func TestConflictsOfOrdinals(t *testing.T) {
	v := NewView([]Member{
		{ID: "a", Weight: 1, Ordinal: 0, Of: 4},
		{ID: "b", Weight: 1, Ordinal: 1, Of: 4},
		{ID: "c", Weight: 1, Ordinal: 1, Of: 4},
		{ID: "d", Weight: 1, Ordinal: 2, Of: 5},
		{ID: "e", Weight: 1, Ordinal: 4, Of: 4},
		{ID: "f", Weight: 1, Ordinal: -1, Of: 4},
		{ID: "g", Weight: 1, Ordinal: 3},
		{ID: "h", Weight: 1, Of: -1},
	})
	text := strings.Join(v.Conflicts(), "\n")
	for _, want := range []string{
		"ordinal 1 is claimed by b, c: it counts for none of them",
		"d says that there are 5 gateways, most say 4: its ordinal 2 does not count",
		"e has ordinal 4, want one from 0 to 3",
		"f has ordinal -1, want one from 0 to 3",
		"h says that there are -1 gateways, want 1 to 1048576: its ordinal 0 does not count",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got conflicts %q, want one with %q", text, want)
		}
	}
	if got := len(v.Conflicts()); got != 5 {
		t.Errorf("got %d conflicts, want 5: %s", got, text)
	}
	for c := range uint64(50) {
		if got := v.Members()[v.Owner(digestOf(c), 1, 16, nil)].ID; got != "a" {
			t.Errorf("chunk %d of lane 1: got %s, want a", c, got)
		}
	}
	seen := map[string]bool{}
	for c := range uint64(200) {
		seen[v.Members()[v.Owner(digestOf(c), 5, 16, nil)].ID] = true
	}
	if len(seen) != 8 {
		t.Errorf("lane of an ordinal claimed twice: got owners %v, want all 8", seen)
	}
}

// TestNumbersOfNoFleet has members that agree about a number of gateways that cannot be.
func TestNumbersOfNoFleet(t *testing.T) {
	v := NewView([]Member{{ID: "a", Weight: 1, Of: 1<<20 + 1}, {ID: "b", Weight: 1, Ordinal: 1, Of: 1<<20 + 1}})
	want := []string{
		"a says that there are 1048577 gateways, want 1 to 1048576: its ordinal 0 does not count",
		"b says that there are 1048577 gateways, want 1 to 1048576: its ordinal 1 does not count",
	}
	if got := v.Conflicts(); !slices.Equal(got, want) {
		t.Errorf("got conflicts %q, want %q", got, want)
	}
	if got := v.Share(0); got != .5 {
		t.Errorf("got a share of %v, want .5", got)
	}
}

func TestNobodyOwns(t *testing.T) {
	everyone := func(int) bool { return true }
	for name, i := range map[string]int{
		"no members":      NewView(nil).Owner(digestOf(1), 0, 0, nil),
		"weight 0":        NewView([]Member{{ID: "a"}, {ID: "b", Of: 1}}).Owner(digestOf(1), 0, 1, nil),
		"all skipped":     NewView(fleet(3, alike)).Owner(digestOf(1), 0, 0, everyone),
		"unequal skipped": NewView(fleet(3, func(i int) uint64 { return uint64(i) })).Owner(digestOf(1), 0, 0, everyone),
	} {
		if i != -1 {
			t.Errorf("%s: got owner %d, want -1", name, i)
		}
	}
	if got := NewView([]Member{{ID: "a"}}).Share(0); got != 0 {
		t.Errorf("share of weight 0: got %v, want 0", got)
	}
}

// TestViewsDoNotDependOnOrder shuffles members and compares; and weights scaled alike change nothing.
func TestViewsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.IntRange(1, 9).Draw(t, "members")
		members := fleet(p, func(int) uint64 { return rapid.Uint64Range(0, 5).Draw(t, "weight") })
		for i := range members {
			members[i].Ordinal, members[i].Of = rapid.IntRange(-1, 9).Draw(t, "ordinal"), rapid.SampledFrom([]int{0, 3, 9}).Draw(t, "of")
		}
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		scaled := slices.Clone(members)
		for i := range scaled {
			scaled[i].Weight <<= 60
		}
		a, b, c := NewView(members), NewView(shuffled), NewView(scaled)
		if got, want := fmt.Sprint(b.Members(), b.Conflicts()), fmt.Sprint(a.Members(), a.Conflicts()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		sum := 0.
		for i := range members {
			sum += a.Share(i)
		}
		if a.Owner(digestOf(0), 0, 0, nil) >= 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("shares sum to %v, want 1", sum)
		}
		for i := range uint64(20) {
			digest, of := digestOf(rapid.Uint64().Draw(t, "chunk")), i%3*10
			want := owners(a, digest, i%max(1, of), of)
			for _, v := range []*View{b, c} {
				if got := owners(v, digest, i%max(1, of), of); !slices.Equal(got, want) {
					t.Fatalf("got owners %v, want %v", got, want)
				}
			}
		}
	})
}

func BenchmarkOwner(b *testing.B) {
	for name, weight := range map[string]func(int) uint64{"equal": alike, "weighted": func(i int) uint64 { return uint64(i + 1) }} {
		v := NewView(fleet(100, weight))
		b.Run(name, func(b *testing.B) {
			n := uint64(0)
			for b.Loop() {
				v.Owner([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}, 0, 0, nil)
				n++
			}
		})
	}
}
