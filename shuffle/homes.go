package shuffle

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// CheckSplit reports why the shares of worldSize ranks cannot follow homes (split=locality), or nil if they can.
func (p *Plan) CheckSplit(worldSize uint64) error {
	name := p.params.Shuffle
	switch {
	case worldSize == 0:
		return fmt.Errorf("split %s: world size is 0, want at least 1", Locality)
	case name == Slot:
		if m := p.homes(); worldSize > m {
			return fmt.Errorf("split %s: %d ranks share %d lanes, want at most one rank for each", Locality, worldSize, m)
		}
	case p.strata != nil:
		if k := p.params.Strata; worldSize > k {
			return fmt.Errorf("split %s: %d ranks share %d strata, want at most one rank for each", Locality, worldSize, k)
		}
	case name == Window:
		return fmt.Errorf("split %s: shuffle %s without strata has no homes, want strata of at least the world size", Locality, name)
	default:
		return fmt.Errorf("split %s: shuffle %s has no homes, want %s, or %s with strata", Locality, name, Slot, Window)
	}
	return nil
}

// homes returns how many lanes or strata there are; 0 if samples have no homes.
func (p *Plan) homes() uint64 {
	switch {
	case p.strata != nil:
		return p.params.Strata
	case p.lanes != nil:
		return uint64(len(p.lanes.offset))
	case p.params.Shuffle == Slot:
		return uint64(len(p.homeLayout().offset))
	}
	return 0
}

// homeLayout returns the lanes of a slot plan: with importance those that lie within a sample of every epoch's, the draws
// with a phase of 0.
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

// Home says where a chunk is at home, in every epoch alike: the number place of the lane that holds most of its samples
// (of equal ones the lowest), among all lanes; or that of its stratum, among all strata. Of 0 says that it has no home: the
// order has none, or no lane a sample of the chunk.
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

// home returns the lane that holds most of a chunk.
func (l *lanes) home(chunk uint32) (lane, of uint64) {
	if len(l.pieceChunk) == 0 {
		return 0, 0
	}
	l.once.Do(l.findChunks)
	if int(chunk) >= len(l.chunkPiece) {
		return 0, 0
	}
	n := int(l.chunkPiece[chunk])
	if l.pieceChunk[n] != chunk {
		return 0, 0
	}
	at := sort.Search(len(l.offset)-1, func(j int) bool { return int(l.firstPiece[j+1]) > n })
	most := uint64(0)
	for ; n < len(l.pieceChunk) && l.pieceChunk[n] == chunk; n++ {
		for n >= int(l.firstPiece[at+1]) {
			at++
		}
		if size := l.pieceAt[n+1] - l.pieceAt[n]; size > most {
			lane, most = uint64(at), size
		}
	}
	return lane, uint64(len(l.offset))
}

// DealHomes returns the share of one rank where shares follow homes (split=locality): the places within a whole global batch,
// padded ones included, ascending, of its samples. A rank takes the samples of the lanes or strata that are its own:
// sample x of lane or stratum s of k is at home with rank floor(s*worldSize/k). What a rank has beyond its quota,
// the size of its contiguous share, goes to ranks that lack some, the largest surplus to the largest deficit
// (of equal ones the lowest rank), the last samples first. So shares tile the batch, and at most worldSize-1 transfers
// are made. A plan without homes has contiguous shares; a rank that does not exist has none. A batch has less than 2^32 samples.
//
// After the locality-aware loading of Yang and Cong (HiPC 2019), without their directory: homes are arithmetic.
func (e *Epoch) DealHomes(batch Share, rank, worldSize uint64) []int {
	if rank >= worldSize {
		return nil
	}
	lo, hi := mulDiv(rank, batch.Count, worldSize), mulDiv(rank+1, batch.Count, worldSize)
	share := make([]int, 0, hi-lo)
	if e.plan.homes() == 0 || worldSize == 1 || batch.Count == 0 {
		for place := lo; place < hi; place++ {
			share = append(share, int(place))
		}
		return share
	}
	d := e.deal(batch, worldSize)
	for _, place := range d.places[lo:hi] {
		share = append(share, int(place))
	}
	return share
}

// KeptDeals is how many batches an epoch remembers how it dealt them, 4 bytes a sample: those from the one being read to
// the last that a reader looks ahead to, which the ranks have in common.
const KeptDeals = 24

// keptSamples is how many samples a batch has at the most whose deal is remembered.
const keptSamples = 1 << 20

// keptDeal is a deal that an epoch remembers. Its lock is held while it is made: the ranks of a training step come together, and one
// makes it for all.
type keptDeal struct {
	mu   sync.Mutex
	deal *homeDeal
}

// deal returns a global batch dealt to all ranks, from memory if it was one of the last.
func (e *Epoch) deal(batch Share, worldSize uint64) *homeDeal {
	if batch.Count > keptSamples {
		return e.dealHomes(batch, worldSize)
	}
	kept := &e.deals[batch.First/batch.Count%KeptDeals]
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if d := kept.deal; d == nil || d.first != batch.First || d.count != batch.Count || d.worldSize != worldSize {
		kept.deal = e.dealHomes(batch, worldSize)
	}
	return kept.deal
}

// homeDeal is one global batch, dealt to all ranks.
type homeDeal struct {
	first, count, worldSize uint64
	places                  []uint32 // share by share, each ascending
}

// quota returns which of all places, share by share, are those of a rank.
func (d *homeDeal) quota(rank uint64) (lo, hi uint64) {
	return mulDiv(rank, d.count, d.worldSize), mulDiv(rank+1, d.count, d.worldSize)
}

func (e *Epoch) dealHomes(batch Share, worldSize uint64) *homeDeal {
	d := &homeDeal{first: batch.First, count: batch.Count, worldSize: worldSize, places: make([]uint32, batch.Count)}
	own, at := byHome(e.appendHomes(make([]uint32, 0, batch.Count), batch, worldSize), worldSize)
	next := make([]uint32, worldSize) // where the share of a rank goes on
	var more, less unevenRanks
	for r := range worldSize {
		lo, hi := d.quota(r)
		home := own[at[r]:at[r+1]]
		kept := copy(d.places[lo:hi], home)
		next[r] = uint32(lo) + uint32(kept)
		switch quota := int(hi - lo); {
		case len(home) > quota:
			more = append(more, unevenRank{rank: r, by: uint64(len(home) - quota)})
		case len(home) < quota:
			less = append(less, unevenRank{rank: r, by: uint64(quota - len(home))})
		}
	}
	repair(more, slices.Clone(less), func(from, to, lo, hi uint64) {
		kept, end := d.quota(from)
		beyond := own[uint64(at[from])+end-kept : at[from+1]]
		next[to] += uint32(copy(d.places[next[to]:], beyond[lo:hi]))
	})
	for _, r := range less {
		lo, hi := d.quota(r.rank)
		slices.Sort(d.places[lo:hi])
	}
	return d
}

// byHome sorts the places of a batch by the ranks where they are at home: those of rank r are at[r] to at[r+1]-1 of them, ascending.
func byHome(home []uint32, worldSize uint64) (places, at []uint32) {
	at = make([]uint32, worldSize+1)
	for _, h := range home {
		at[h+1]++
	}
	for r := range worldSize {
		at[r+1] += at[r]
	}
	places, next := make([]uint32, len(home)), slices.Clone(at)
	for place, h := range home {
		places[next[h]] = uint32(place)
		next[h]++
	}
	return places, at
}

// repair gives what some ranks have more to those that have less, and uses both up. move gives samples lo to hi-1 of those that
// rank from has beyond its quota to rank to.
func repair(more, less unevenRanks, move func(from, to, lo, hi uint64)) {
	heap.Init(&more)
	heap.Init(&less)
	for len(more) > 0 && len(less) > 0 {
		from, to := more[0], less[0]
		by := min(from.by, to.by)
		move(from.rank, to.rank, from.by-by, from.by)
		more.settle(by)
		less.settle(by)
	}
}

// unevenRank is a rank whose samples and quota differ.
type unevenRank struct{ rank, by uint64 }

// unevenRanks is a heap of them, on top the one that differs most, of equal ones the lowest.
type unevenRanks []unevenRank

// settle takes samples off the difference of the first.
func (u *unevenRanks) settle(by uint64) {
	if (*u)[0].by -= by; (*u)[0].by == 0 {
		heap.Pop(u)
	} else {
		heap.Fix(u, 0)
	}
}

func (u unevenRanks) Len() int { return len(u) }
func (u unevenRanks) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(u[j].by, u[i].by), cmp.Compare(u[i].rank, u[j].rank)) < 0
}
func (u unevenRanks) Swap(i, j int) { u[i], u[j] = u[j], u[i] }

// Push and Pop complete heap.Interface.
func (u *unevenRanks) Push(x any) { *u = append(*u, x.(unevenRank)) }

// Pop removes the last element.
func (u *unevenRanks) Pop() any {
	old := *u
	last := old[len(old)-1]
	*u = old[:len(old)-1]
	return last
}

// appendHomes appends the rank where each sample of a batch is at home.
func (e *Epoch) appendHomes(dst []uint32, batch Share, worldSize uint64) []uint32 {
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
	toRanks(dst[from:], worldSize, e.plan.homes())
	return dst
}

// toRanks makes of lanes or strata, of k, the ranks where they are at home.
func toRanks(homes []uint32, worldSize, k uint64) {
	rankOf := func(j uint64) uint32 { return uint32(mulDiv(j, worldSize, k)) }
	if k > uint64(len(homes)) { // a table would be longer than what it is for
		for i, j := range homes {
			homes[i] = rankOf(uint64(j))
		}
		return
	}
	table := make([]uint32, k)
	for j := range table {
		table[j] = rankOf(uint64(j))
	}
	for i, j := range homes {
		homes[i] = table[j]
	}
}

// appendLanes appends the lanes that positions lo to hi-1 take from.
func (o *slotOrder) appendLanes(dst []uint32, lo, hi uint64) []uint32 {
	var active []uint32
	var some []uint64
	for k, begin := o.rows.find(lo); lo < hi; k++ {
		n := o.rows.active(k)
		if n < uint64(len(o.rows.length)) && uint64(len(active)) != n {
			active = o.rows.appendActive(active[:0], k)
		}
		row, end := newPerm(o.rowKey.with(k), n), min(hi, begin+n)
		some = row.appendRange(some[:0], lo-begin, end-begin)
		for _, lane := range some {
			if len(active) > 0 {
				lane = uint64(active[lane])
			}
			dst = append(dst, uint32(lane))
		}
		begin += n
		lo = end
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

// Bounds of what Moved looks at.
const (
	movedBatches = 64
	movedSamples = 1 << 18
)

// Moved returns the share, from 0 to 1, of an epoch's samples that ranks take from homes other than their own, so that shares are equal
// (DealHomes): measured on batches of epoch 0 that lie evenly over it, at most 64 of them and 2^18 samples. Of a larger
// batch it looks at the first 2^18 samples. 0 where samples have no homes.
func (p *Plan) Moved(batching Batching, worldSize uint64) float64 {
	batches := batching.Batches()
	if p.CheckSplit(worldSize) != nil || batches == 0 || p.samples == 0 {
		return 0
	}
	e := p.Epoch(0)
	looks := min(batches, movedBatches, max(1, movedSamples/batching.BatchSize))
	var moved, all uint64
	var homes []uint32
	for i := range looks {
		batch := batching.Share(mulDiv(i, batches, looks), 0, 1)
		batch.Count = min(batch.Count, movedSamples)
		homes = e.appendHomes(homes[:0], batch, worldSize)
		moved += surplus(homes, worldSize)
		all += batch.Count
	}
	return float64(moved) / float64(max(1, all))
}

// surplus returns how many samples of a batch are beyond the quotas of their homes.
func surplus(homes []uint32, worldSize uint64) uint64 {
	count := make([]uint64, worldSize)
	for _, h := range homes {
		count[h]++
	}
	var sum uint64
	n := uint64(len(homes))
	for r, c := range count {
		quota := mulDiv(uint64(r)+1, n, worldSize) - mulDiv(uint64(r), n, worldSize)
		sum += c - min(c, quota)
	}
	return sum
}
