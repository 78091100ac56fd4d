package placement

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fleet returns p members. weight returns the weight of the i-th member.
func fleet(p int, weight func(i int) uint64) []Member {
	members := make([]Member, p)
	for i := range members {
		members[i] = Member{ID: fmt.Sprintf("gw-%d", i), Weight: weight(i)}
	}
	return members
}

func alike(int) uint64 { return 8 << 30 }

// owned returns the ID of the owner of each of n chunks.
func owned(v *View, n int) []string {
	ids := make([]string, n)
	for c := range ids {
		ids[c] = v.Members()[v.Owner(digestOf(uint64(c)), nil)].ID
	}
	return ids
}

// TestLosingAMemberMovesOnlyItsChunks checks the main property of rendezvous hashing.
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
			want := NewView(members).Share(members[lost].ID)
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
			for i := range p { // at least 2,000 chunks for the member with the least weight
				n = max(n, int(math.Ceil(2000/v.Share(v.Members()[i].ID))))
			}
			count := map[string]int{}
			for _, id := range owned(v, n) {
				count[id]++
			}
			most := 0.
			for _, m := range v.Members() {
				most = max(most, float64(count[m.ID])/(v.Share(m.ID)*float64(n)))
			}
			t.Logf("figure: fullest of %d members, weights %s, %d chunks: %.3f of its part", p, c.name, n, most)
			if most > 1.07 {
				t.Errorf("%d members, weights %s: got a load of %.3f times its part, want at most 1.07", p, c.name, most)
			}
		}
	}
}

func TestOwner_NoMemberWithWeight(t *testing.T) {
	everyone := func(int) bool { return true }
	for name, i := range map[string]int{
		"no members":      NewView(nil).Owner(digestOf(1), nil),
		"weight 0":        NewView([]Member{{ID: "a"}, {ID: "b"}}).Owner(digestOf(1), nil),
		"all skipped":     NewView(fleet(3, alike)).Owner(digestOf(1), everyone),
		"unequal skipped": NewView(fleet(3, func(i int) uint64 { return uint64(i) })).Owner(digestOf(1), everyone),
	} {
		if i != -1 {
			t.Errorf("%s: got owner %d, want -1", name, i)
		}
	}
	if got := NewView([]Member{{ID: "a"}}).Share("a"); got != 0 {
		t.Errorf("share of weight 0: got %v, want 0", got)
	}
}

// TestViewsDoNotDependOnOrder: shuffling the members, or scaling all their weights alike, changes
// no owner.
func TestViewsDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.IntRange(1, 9).Draw(t, "members")
		members := fleet(p, func(int) uint64 { return rapid.Uint64Range(0, 5).Draw(t, "weight") })
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		scaled := slices.Clone(members)
		for i := range scaled {
			scaled[i].Weight <<= 60
		}
		a, b, c := NewView(members), NewView(shuffled), NewView(scaled)
		if got, want := fmt.Sprint(b.Members()), fmt.Sprint(a.Members()); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		sum := 0.
		for _, m := range members {
			sum += a.Share(m.ID)
		}
		if a.Owner(digestOf(0), nil) >= 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("shares sum to %v, want 1", sum)
		}
		for range 20 {
			digest := digestOf(rapid.Uint64().Draw(t, "chunk"))
			want := owners(a, digest)
			for _, v := range []*View{b, c} {
				if got := owners(v, digest); !slices.Equal(got, want) {
					t.Fatalf("got owners %v, want %v", got, want)
				}
			}
		}
	})
}

// TestNewView_MakesLogarithmsForUnequalWeights: equal weights need no logarithms. Members of weight
// 0 own nothing and are not compared.
func TestNewView_MakesLogarithmsForUnequalWeights(t *testing.T) {
	for _, c := range []struct {
		weights []uint64
		want    bool
	}{
		{nil, false}, {[]uint64{5}, false}, {[]uint64{5, 5}, false}, {[]uint64{0, 5, 5}, false}, {[]uint64{5, 0, 5}, false},
		{[]uint64{0, 0}, false}, {[]uint64{5, 6}, true}, {[]uint64{6, 0, 5, 5}, true},
	} {
		v := NewView(fleet(len(c.weights), func(i int) uint64 { return c.weights[i] }))
		if got := v.log != nil; got != c.want {
			t.Errorf("weights %d: got logarithms %v, want %v", c.weights, got, c.want)
		}
	}
}

// TestOwner_TiesGoToTheFirst: members with equal keys draw equal numbers for each chunk, and the
// first one owns it.
func TestOwner_TiesGoToTheFirst(t *testing.T) {
	for name, weight := range map[string]func(int) uint64{
		"equal":   alike,
		"unequal": func(i int) uint64 { return []uint64{8 << 30, 8 << 30, 1}[i] },
	} {
		v := NewView(fleet(3, weight))
		v.keys[1] = v.keys[0]
		for c := range uint64(100) {
			if i := v.Owner(digestOf(c), nil); i == 1 {
				t.Fatalf("weights %s, chunk %d: got the second of two equal members, want the first", name, c)
			}
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	for name, weight := range map[string]func(int) uint64{"equal": alike, "weighted": func(i int) uint64 { return uint64(i + 1) }} {
		v := NewView(fleet(100, weight))
		b.Run(name, func(b *testing.B) {
			n := uint64(0)
			for b.Loop() {
				v.Owner([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}, nil)
				n++
			}
		})
	}
}
