// Package placement says which gateway of a cluster is to hold a chunk. It is pure arithmetic over the members that are there:
// nothing is stored, nothing agreed upon. Views that differ cost a read, never a byte. The arithmetic is integer, frozen, and
// stated in docs/spec/placement.md, so that every machine and every release finds the same owner.
package placement

import (
	"cmp"
	"slices"
)

// Member is one gateway as placement sees it.
type Member struct {
	ID     string // the same after a restart
	Weight uint64 // bytes of cache: a member owns chunks in proportion to it; 0 owns none
}

// View is the members of a cluster as one of them sees it. It is immutable and safe for concurrent use.
type View struct {
	members []Member
	keys    []uint64  // of each member
	sum     float64   // of the weights
	log     *logTable // nil: members that own chunks all have one weight
}

// NewView makes a view of members, in any order; their IDs are distinct.
func NewView(members []Member) *View {
	v := &View{members: slices.Clone(members), keys: make([]uint64, 0, len(members))}
	slices.SortFunc(v.members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	weight := uint64(0)
	for _, m := range v.members {
		v.keys = append(v.keys, memberKey(m.ID))
		if m.Weight > 0 && weight > 0 && m.Weight != weight && v.log == nil {
			v.log = newLogTable()
		}
		weight = max(weight, m.Weight)
		v.sum += float64(m.Weight)
	}
	return v
}

// Members returns the members, sorted by ID. The result is shared and must not be changed.
func (v *View) Members() []Member { return v.members }

// Owner returns the index in Members of the gateway that is to hold the chunk of a digest, by weighted rendezvous; -1: none
// can. skip, which may be nil, leaves members out: with it Owner tells the second choice. It returns the same for the same
// member.
func (v *View) Owner(digest [32]byte, skip func(i int) bool) int {
	return v.rendezvous(chunkKey(digest), skip)
}

// Share returns the share of the chunks, from 0 to 1, that the gateway of an ID is expected to own: 0 for one that is no member,
// and where v is nil.
func (v *View) Share(id string) float64 {
	if v == nil {
		return 0
	}
	i, here := slices.BinarySearchFunc(v.members, id, func(m Member, id string) int { return cmp.Compare(m.ID, id) })
	if !here || v.members[i].Weight == 0 {
		return 0
	}
	return float64(v.members[i].Weight) / v.sum
}
