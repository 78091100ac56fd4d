// Package placement computes which gateway of a cluster owns a chunk. The result depends only on
// the current members; there is no state and no consensus. If gateways have different views, a
// chunk is read twice, but bytes are never wrong. The arithmetic uses integers, is frozen, and is
// specified in docs/spec/placement.md, so that every machine and every release computes the same
// owner.
package placement

import (
	"cmp"
	"slices"
)

// Member is one gateway for placement.
type Member struct {
	ID     string // the same after a restart
	Weight uint64 // bytes of cache: a member owns chunks in proportion; with 0 it owns none
}

// View is the set of members of a cluster, as one of them sees it. It is immutable and safe for
// concurrent use.
type View struct {
	members []Member
	keys    []uint64  // key of each member
	sum     float64   // sum of the weights
	log     *logTable // nil: all members that own chunks have the same weight
}

// NewView returns the view of members, in any order; their IDs must be distinct.
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

// Owner returns the index in Members of the gateway that owns the chunk with a digest, by weighted
// rendezvous hashing. It returns -1 if there is none. skip, which may be nil, excludes members, for
// example to get the second choice. It must return the same result for the same member.
func (v *View) Owner(digest [32]byte, skip func(i int) bool) int {
	return v.rendezvous(chunkKey(digest), skip)
}

// Share returns the expected share of chunks, from 0 to 1, that the gateway with an ID owns. It is
// 0 if the gateway is not a member, or if v is nil.
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
