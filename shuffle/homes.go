package shuffle

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync"
)

// CheckSharing returns an error if the shares of worldSize ranks cannot follow the given number of
// homes (share=locality).
func (p *Plan) CheckSharing(worldSize, homes uint64) error {
	name := p.params.Shuffle
	switch most := p.mostHomes(); {
	case worldSize == 0:
		return fmt.Errorf("share %s: world size is 0: must be at least 1", Locality)
	case homes == 0:
		return fmt.Errorf("share %s: homes is 0: must be at least 1", Locality)
	case homes > worldSize:
		return fmt.Errorf("share %s: %d homes for %d ranks: at most one home per rank is possible", Locality, homes, worldSize)
	case name == Slot && homes > most:
		return fmt.Errorf("share %s: %d homes for %d lanes: homes must be at most %[3]d", Locality, homes, most)
	case p.strata != nil && homes > most:
		return fmt.Errorf("share %s: %d homes for %d strata: homes must be at most %[3]d", Locality, homes, most)
	case name == Window && p.strata == nil:
		return fmt.Errorf("share %s: shuffle %s without strata has no homes: strata must be at least %d", Locality, name, homes)
	case name != Slot && name != Window:
		return fmt.Errorf("share %s: shuffle %s has no homes: use %s, or %s with strata", Locality, name, Slot, Window)
	}
	return nil
}

// mostHomes returns the number of lanes or strata, which is the maximum number of homes; 0 if
// samples have no homes.
func (p *Plan) mostHomes() uint64 {
	switch {
	case p.strata != nil:
		return p.params.Strata
	case p.params.Shuffle == Slot:
		return min(p.params.Window, p.samples)
	}
	return 0
}

// homeLayout returns the lanes of a slot plan. With importance it returns the lanes of the draws of
// phase 0. In an epoch's lanes the borders of chunks differ from these by at most one sample.
func (p *Plan) homeLayout() *lanes {
	if p.lanes != nil {
		return p.lanes
	}
	p.homeOnce.Do(func() {
		first := make(chunkTable, len(p.weights))
		for i, w := range p.weights {
			first[i] = mulDiv(w, p.samples, p.weights[len(p.weights)-1])
		}
		p.homeLanes = newLanes(p.params, first)
	})
	return p.homeLanes
}

// Home returns a chunk's home, which is the same in every epoch. In a slot order place is the
// number of the lane with most of its samples (the lowest of equal lanes), and of the number of
// lanes. With strata place is the number of its stratum, and of the number of strata. of is 0 if
// the chunk has no home: the order has no homes, or no lane has a sample of the chunk.
func (p *Plan) Home(chunk uint64) (place, of uint64) {
	switch {
	case chunk >= uint64(p.chunks.len()):
		return 0, 0
	case p.strata != nil:
		return uint64(p.strata[chunk]), p.params.Strata
	case p.params.Shuffle == Slot:
		return p.homeLayout().home(uint32(chunk))
	}
	return 0, 0
}

// home returns the lane with most samples of a chunk, and the number of lanes.
func (l *lanes) home(chunk uint32) (lane, of uint64) {
	if len(l.pieceChunk) == 0 {
		return 0, 0
	}
	l.once.Do(l.findChunks)
	if int(chunk) >= len(l.chunkPiece) {
		return 0, 0
	}
	n := int(l.chunkPiece[chunk])
	most := uint64(0)
	for at := uint64(l.of(l.pieceAt[n])); n < len(l.pieceChunk) && l.pieceChunk[n] == chunk; at, n = at+1, n+1 {
		if size := l.pieceAt[n+1] - l.pieceAt[n]; size > most {
			lane, most = at, size
		}
	}
	if most == 0 {
		return 0, 0
	}
	return lane, l.width
}

// HomeGroups returns the groups, first to last, that are home to samples of a chunk if shares
// follow the given number of homes. A chunk at the border between two homes has more than one. ok
// is false if the order has no homes or if the chunk has no samples.
func (p *Plan) HomeGroups(chunk, homes uint64) (first, last uint64, ok bool) {
	of := p.mostHomes()
	if of == 0 || chunk >= uint64(p.chunks.len()) || p.chunks.size(uint32(chunk)) == 0 {
		return 0, 0, false
	}
	if p.strata != nil {
		first = mulDiv(uint64(p.strata[chunk]), homes, of)
		return first, first, true
	}
	from, to, ok := p.homeLayout().lanesOf(uint32(chunk))
	return mulDiv(from, homes, of), mulDiv(to, homes, of), ok
}

// lanesOf returns the lanes, first to last, that have samples of a chunk. ok is false if there are
// none.
func (l *lanes) lanesOf(chunk uint32) (first, last uint64, ok bool) {
	if len(l.pieceChunk) == 0 {
		return 0, 0, false
	}
	l.once.Do(l.findChunks)
	if int(chunk) >= len(l.chunkPiece) {
		return 0, 0, false
	}
	from := int(l.chunkPiece[chunk])
	to := from
	for to < len(l.pieceChunk) && l.pieceChunk[to] == chunk {
		to++
	}
	if from == to {
		return 0, 0, false
	}
	first = uint64(l.of(l.pieceAt[from]))
	return first, first + uint64(to-from) - 1, true
}

// DealHomes returns the share of one rank if shares follow homes (share=locality): the ascending
// places of its samples within a whole global batch, padded samples included. Ranks are divided
// into one group per home: rank r is in group floor(r*homes/worldSize). A group gets the samples of
// its own lanes or strata: the home of lane or stratum s of k is group floor(s*homes/k). The quota
// of a group is the total size of its ranks' contiguous shares. Samples above a group's quota are
// transferred to groups below theirs: from the largest surplus to the largest deficit (of equal
// ones the lowest group), the last samples first, in at most homes-1 transfers. The ascending
// places of a group are then divided by its ranks' quotas, so shares tile the batch. A plan without
// homes has contiguous shares; a rank that does not exist has none. A batch has fewer than 2^32
// samples.
//
// The method follows the locality-aware loading of Yang and Cong (HiPC 2019), but computes homes
// instead of storing a directory.
func (e *Epoch) DealHomes(batch Share, rank, worldSize, homes uint64) []int {
	if rank >= worldSize {
		return nil
	}
	lo, hi := mulDiv(rank, batch.Count, worldSize), mulDiv(rank+1, batch.Count, worldSize)
	share := make([]int, 0, hi-lo)
	if e.plan.mostHomes() == 0 || homes <= 1 || batch.Count == 0 {
		for place := lo; place < hi; place++ {
			share = append(share, int(place))
		}
		return share
	}
	d := e.deal(batch, worldSize, homes)
	for _, place := range d.places[lo:hi] {
		share = append(share, int(place))
	}
	return share
}

// DealHomesAt is like DealHomes, for a batch whose samples are those at the given positions, in this
// order. It caches nothing.
func (e *Epoch) DealHomesAt(positions []uint64, rank, worldSize, homes uint64) []int {
	batch := Share{Count: uint64(len(positions))}
	if rank >= worldSize || e.plan.mostHomes() == 0 || homes <= 1 {
		return e.DealHomes(batch, rank, worldSize, homes)
	}
	var share []int
	for _, place := range e.dealAt(positions, worldSize, homes).places[mulDiv(rank, batch.Count, worldSize):mulDiv(rank+1, batch.Count, worldSize)] {
		share = append(share, int(place))
	}
	return share
}

// dealAt returns the deal of the samples at some positions.
func (e *Epoch) dealAt(positions []uint64, worldSize, homes uint64) *homeDeal {
	var own []uint32
	for _, t := range positions {
		own = e.appendHomes(own, Share{First: t, Count: 1}, homes)
	}
	return dealHomes(own, Share{Count: uint64(len(positions))}, worldSize, homes)
}

// KeptDeals is the number of batches whose deals an epoch caches, at 4 bytes per sample. The cache
// covers the batches from the current one to the last one that a reader prefetches. All ranks share
// it.
const KeptDeals = 24

// keptSamples is the maximum number of samples of a batch whose deal is cached.
const keptSamples = 1 << 20

// cachedDeal is a cached deal. Its lock is held while the deal is computed: all ranks of a training
// step request it at once, and the first request computes it for all.
type cachedDeal struct {
	mu   sync.Mutex
	deal *homeDeal
}

// deal returns the deal of a global batch to all ranks, from the cache if it is cached.
func (e *Epoch) deal(batch Share, worldSize, homes uint64) *homeDeal {
	if batch.Count > keptSamples {
		return dealHomes(e.appendHomes(nil, batch, homes), batch, worldSize, homes)
	}
	kept := &e.deals[batch.First/batch.Count%KeptDeals]
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if d := kept.deal; d == nil || d.first != batch.First || d.count != batch.Count || d.worldSize != worldSize || d.homes != homes {
		kept.deal = dealHomes(e.appendHomes(make([]uint32, 0, batch.Count), batch, homes), batch, worldSize, homes)
	}
	return kept.deal
}

// homeDeal is one global batch, dealt to all ranks.
type homeDeal struct {
	first, count, worldSize, homes uint64
	places                         []uint32 // places by group, ascending in each, so also by share
}

// quota returns the range of places, by group, that belongs to a group. Its size is the total size
// of the contiguous shares of the group's ranks.
func (d *homeDeal) quota(group uint64) (lo, hi uint64) {
	before := func(group uint64) uint64 { // number of samples of the ranks in groups before this one
		first := d.worldSize - mulDiv(d.homes-group, d.worldSize, d.homes) // ceil(group*worldSize/homes)
		return mulDiv(first, d.count, d.worldSize)
	}
	return before(group), before(group + 1)
}

// dealHomes deals a batch to all ranks. home has the home group of the sample at each place.
func dealHomes(home []uint32, batch Share, worldSize, homes uint64) *homeDeal {
	d := &homeDeal{first: batch.First, count: batch.Count, worldSize: worldSize, homes: homes, places: make([]uint32, batch.Count)}
	own, at := byHome(home, homes)
	next := make([]uint32, homes) // the next place of each group
	var more, less unevenGroups
	for g := range homes {
		lo, hi := d.quota(g)
		home := own[at[g]:at[g+1]]
		kept := copy(d.places[lo:hi], home)
		next[g] = uint32(lo) + uint32(kept)
		switch quota := int(hi - lo); {
		case len(home) > quota:
			more = append(more, unevenGroup{group: g, by: uint64(len(home) - quota)})
		case len(home) < quota:
			less = append(less, unevenGroup{group: g, by: uint64(quota - len(home))})
		}
	}
	repair(more, slices.Clone(less), func(from, to, lo, hi uint64) {
		kept, end := d.quota(from)
		beyond := own[uint64(at[from])+end-kept : at[from+1]]
		next[to] += uint32(copy(d.places[next[to]:], beyond[lo:hi]))
	})
	for _, g := range less {
		lo, hi := d.quota(g.group)
		slices.Sort(d.places[lo:hi])
	}
	return d
}

// byHome groups the places of a batch by their home groups: places[at[g]:at[g+1]] are the places of
// group g, ascending.
func byHome(home []uint32, homes uint64) (places, at []uint32) {
	at = make([]uint32, homes+1)
	for _, h := range home {
		at[h+1]++
	}
	for g := range homes {
		at[g+1] += at[g]
	}
	places, next := make([]uint32, len(home)), slices.Clone(at)
	for place, h := range home {
		places[next[h]] = uint32(place)
		next[h]++
	}
	return places, at
}

// repair transfers the surplus of some groups to groups with a deficit, and consumes both lists.
// move transfers the samples lo to hi-1 of the surplus of group from to group to.
func repair(more, less unevenGroups, move func(from, to, lo, hi uint64)) {
	heap.Init(&more)
	heap.Init(&less)
	for len(more) > 0 && len(less) > 0 {
		from, to := more[0], less[0]
		by := min(from.by, to.by)
		move(from.group, to.group, from.by-by, from.by)
		more.settle(by)
		less.settle(by)
	}
}

// unevenGroup is a group whose number of samples differs from its quota.
type unevenGroup struct{ group, by uint64 }

// unevenGroups is a heap of groups. On top is the group with the largest difference, or the lowest
// of equal ones.
type unevenGroups []unevenGroup

// settle subtracts transferred samples from the difference of the first group.
func (u *unevenGroups) settle(by uint64) {
	if (*u)[0].by -= by; (*u)[0].by == 0 {
		heap.Pop(u)
	} else {
		heap.Fix(u, 0)
	}
}

func (u unevenGroups) Len() int { return len(u) }
func (u unevenGroups) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(u[j].by, u[i].by), cmp.Compare(u[i].group, u[j].group)) < 0
}
func (u unevenGroups) Swap(i, j int) { u[i], u[j] = u[j], u[i] }

// Push and Pop complete heap.Interface.
func (u *unevenGroups) Push(x any) { *u = append(*u, x.(unevenGroup)) }

// Pop removes the last element.
func (u *unevenGroups) Pop() any {
	old := *u
	last := old[len(old)-1]
	*u = old[:len(old)-1]
	return last
}

// appendHomes appends the home group of each sample of a batch.
func (e *Epoch) appendHomes(dst []uint32, batch Share, homes uint64) []uint32 {
	s, from := e.plan.samples, len(dst)
	for at, left := batch.First, batch.Count; left > 0; {
		lo := at % s
		n := min(left, s-lo)
		if e.slot != nil {
			dst = e.slot.appendLanes(dst, lo, lo+n)
		} else {
			dst = e.window.appendStrata(dst, lo, lo+n)
		}
		at, left = at+n, left-n
	}
	toGroups(dst[from:], homes, e.plan.mostHomes())
	return dst
}

// toGroups replaces lanes or strata by their home groups. k is the number of lanes or strata.
func toGroups(places []uint32, homes, k uint64) {
	groupOf := func(j uint64) uint32 { return uint32(mulDiv(j, homes, k)) }
	if k > uint64(len(places)) { // a table would be longer than the list of places
		for i, j := range places {
			places[i] = groupOf(uint64(j))
		}
		return
	}
	table := make([]uint32, k)
	for j := range table {
		table[j] = groupOf(uint64(j))
	}
	for i, j := range places {
		places[i] = table[j]
	}
}

// appendLanes appends the lanes of the samples at positions lo to hi-1.
func (o *slotOrder) appendLanes(dst []uint32, lo, hi uint64) []uint32 {
	var some []uint64
	for lo < hi {
		some, _, lo = o.appendRow(some[:0], lo, hi)
		for _, lane := range some {
			dst = append(dst, uint32(lane))
		}
	}
	return dst
}

// appendStrata appends the strata of the samples at positions lo to hi-1.
func (w *windowOrder) appendStrata(dst []uint32, lo, hi uint64) []uint32 {
	var some []uint64
	for lo < hi {
		in := w.find(lo)
		end := min(hi, in.base+in.perm.n)
		some = in.perm.appendRange(some[:0], lo-in.base, end-in.base)
		for _, v := range some {
			dst = append(dst, w.strata[w.order[w.placeOf(&in, v)]])
		}
		lo = end
	}
	return dst
}

// Limits on the work of Moved.
const (
	movedBatches = 64
	movedSamples = 1 << 18
)

// Moved returns the share, from 0 to 1, of an epoch's samples that DealHomes moves to another group
// than their home to keep shares equal. It measures batches spread evenly over epoch 0, at most 64
// of them and 2^18 samples. Of a larger batch it uses only the first 2^18 samples. The result is 0
// if samples have no homes.
func (p *Plan) Moved(batching Batching, worldSize, homes uint64) float64 {
	batches := batching.Batches()
	if p.CheckSharing(worldSize, homes) != nil || batches == 0 || p.samples == 0 {
		return 0
	}
	e := p.Epoch(0)
	looks := min(batches, movedBatches, max(1, movedSamples/batching.BatchSize))
	var moved, all uint64
	var own []uint32
	for i := range looks {
		batch := batching.Share(mulDiv(i, batches, looks), 0, 1)
		d := homeDeal{count: min(batch.Count, movedSamples), worldSize: worldSize, homes: homes}
		batch.Count = d.count
		own = e.appendHomes(own[:0], batch, homes)
		moved += d.surplus(own)
		all += d.count
	}
	return float64(moved) / float64(max(1, all))
}

// surplus returns the number of samples of a batch above the quotas of their groups. own has the
// home group of each sample.
func (d *homeDeal) surplus(own []uint32) uint64 {
	count := make([]uint64, d.homes)
	for _, h := range own {
		count[h]++
	}
	var sum uint64
	for g, c := range count {
		lo, hi := d.quota(uint64(g))
		sum += c - min(c, hi-lo)
	}
	return sum
}
