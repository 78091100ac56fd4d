// Package placement says which gateway of a cluster is to hold a chunk. It is pure arithmetic over whoever is there:
// nothing is stored, nothing agreed upon. Views that differ cost a read, never a byte. The arithmetic is integer, frozen, and
// stated in docs/placement.md, so that every machine and every release finds the same owner.
package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Member is one gateway as placement sees it.
type Member struct {
	ID      string // the same after a restart
	Weight  uint64 // bytes of cache: a member owns chunks in proportion to it; 0 owns none
	Ordinal int    // its number among Of gateways where the fleet numbers them
	Of      int    // 0: it has no number
}

// View is the members of a cluster as one of them sees it. It is immutable and safe for concurrent use.
type View struct {
	members   []Member
	keys      []uint64 // of each member
	equal     bool     // members that own chunks all have one weight
	log       *logTable
	numbered  []int // ordinal -> member, or -1; empty: nobody has one
	conflicts []string
}

// NewView makes a view of members, in any order; their IDs are distinct. Where members disagree about Of, it is what most of
// them say (of equally many the largest), and the others have no ordinal. An ordinal that is claimed twice counts for none of
// those who claim it, and neither does one that is not from 0 to Of-1. Conflicts tells of all that.
func NewView(members []Member) *View {
	v := &View{members: slices.Clone(members), equal: true}
	slices.SortFunc(v.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	weight := uint64(0)
	for _, m := range v.members {
		v.keys = append(v.keys, memberKey(m.ID))
		if m.Weight > 0 && weight > 0 && m.Weight != weight {
			v.equal = false
		}
		weight = max(weight, m.Weight)
	}
	if !v.equal {
		v.log = newLogTable()
	}
	v.number()
	return v
}

// maxOf bounds the number of gateways that a fleet can be said to have.
const maxOf = 1 << 20

// number finds who has which ordinal.
func (v *View) number() {
	of := v.mostSay()
	claims := map[int][]int{}
	valid := false
	for i, m := range v.members {
		switch {
		case m.Of == 0:
		case m.Of < 0 || m.Of > maxOf:
			v.conflicts = append(v.conflicts, fmt.Sprintf("%s says that there are %d gateways, want 1 to %d: its ordinal %d does not count", m.ID, m.Of, maxOf, m.Ordinal))
		case m.Of != of:
			v.conflicts = append(v.conflicts, fmt.Sprintf("%s says that there are %d gateways, most say %d: its ordinal %d does not count", m.ID, m.Of, of, m.Ordinal))
		case m.Ordinal < 0 || m.Ordinal >= of:
			v.conflicts = append(v.conflicts, fmt.Sprintf("%s has ordinal %d, want one from 0 to %d: it does not count", m.ID, m.Ordinal, of-1))
		default:
			claims[m.Ordinal] = append(claims[m.Ordinal], i)
			valid = true
		}
	}
	if !valid {
		return
	}
	v.numbered = make([]int, of)
	for ordinal := range v.numbered {
		v.numbered[ordinal] = -1
		if who := claims[ordinal]; len(who) == 1 {
			v.numbered[ordinal] = who[0]
		} else if len(who) > 1 {
			var names []string
			for _, i := range who {
				names = append(names, v.members[i].ID)
			}
			v.conflicts = append(v.conflicts, fmt.Sprintf("ordinal %d is claimed by %s: it counts for none of them", ordinal, strings.Join(names, ", ")))
		}
	}
}

// mostSay returns how many gateways the fleet has: what most members say, of equally many the largest; 0 if none says a number that can be.
func (v *View) mostSay() int {
	said := map[int]int{}
	for _, m := range v.members {
		if m.Of > 0 && m.Of <= maxOf {
			said[m.Of]++
		}
	}
	of := 0
	for n, times := range said {
		if times > said[of] || times == said[of] && n > of {
			of = n
		}
	}
	return of
}

// Members returns the members, sorted by ID. The result is shared and must not be changed.
func (v *View) Members() []Member { return v.members }

// Conflicts says in words what is wrong with ordinals, naming the members.
func (v *View) Conflicts() []string { return slices.Clone(v.conflicts) }

// Owner returns the index in Members of the gateway that is to hold a chunk; -1: nobody can. The chunk is known by its digest, and by
// its home, number place of so many lanes or strata (0: it has none). Where the fleet numbers its p gateways, the home decides: the one
// with ordinal floor(place*p/of). What has no home, or is at home with a gateway that is not there, goes by weighted
// rendezvous over those that are. skip, which may be nil, leaves members out: with it Owner tells the second choice. It returns
// the same for the same member.
func (v *View) Owner(digest [32]byte, place, of uint64, skip func(i int) bool) int {
	if place < of && len(v.numbered) > 0 {
		hi, lo := bits.Mul64(place, uint64(len(v.numbered)))
		ordinal, _ := bits.Div64(hi, lo, of)
		i := v.numbered[ordinal]
		if i >= 0 && v.members[i].Weight > 0 && (skip == nil || !skip(i)) {
			return i
		}
	}
	return v.rendezvous(chunkKey(digest), skip)
}

// Share returns the share of the chunks, from 0 to 1, that a member is expected to own: with ordinals of those that have a home.
func (v *View) Share(i int) float64 {
	var sum float64
	for _, m := range v.members {
		sum += float64(m.Weight)
	}
	own := float64(v.members[i].Weight)
	if own == 0 {
		return 0
	}
	if len(v.numbered) == 0 {
		return own / sum
	}
	var mine, missing float64
	for _, n := range v.numbered {
		switch {
		case n == i:
			mine++
		case n < 0 || v.members[n].Weight == 0:
			missing++
		}
	}
	return (mine + missing*own/sum) / float64(len(v.numbered))
}
