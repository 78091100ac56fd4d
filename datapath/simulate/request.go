package simulate

import (
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// request is one batch of one rank.
type request struct {
	at    shuffle.Cursor
	think time.Duration // think time of the rank, for a query of another gateway
	uses  []use
	ready func() // called when the bytes have arrived
	full  func() // for a query of another gateway: called if there is no memory for the answer; nil: a rank's request, which waits for memory

	ownReads int64            // store reads by sample ranges, if this is a first batch that does not wait for whole chunks
	visit    *lookahead.Visit // nil: a query of another gateway
	bytes    int64            // bytes of the body; 0: the sum of its uses
	ahead    *readAhead       // read-ahead of its rank; nil: none
	run      *batchRun        // run that the request is in; nil: none
	took     int64            // bytes that the run has delivered
	far      []use            // uses that other gateways own
	asks     []question       // queries for the part of far that the run has not delivered
	turn     int64            // bytes that the request takes from gateway.asking
	local    bool             // its order has locality, so its reader needs the rest of its chunks soon
	first    bool             // its reader is new: nothing was prefetched for it
	held     []int32          // chunks leased until the answer is sent
	room     int64            // bytes of memory for a separate body
}

// read reads a request's bytes as the data path does. It leases the chunks if they fit into memory
// together, and otherwise copies samples to a separate body.
func (g *gateway) read(r *request) {
	if r.bytes == 0 {
		for _, u := range r.uses {
			r.bytes += g.data.bytesOf(u.chunk, u.samples)
		}
	}
	g.count.Served += r.bytes
	r.local = r.at.Epoch.Local()
	g.moved(r)
	r.turn = g.far(r)
	if r.ahead != nil {
		r.ahead.come(r, r.turn > 0)
	}
	if r.turn == 0 {
		g.gather(r, r.uses)
		return
	}
	gather := func() { g.gather(r, g.questions(r)) }
	g.asking.enter(r.turn, func() {
		if r.ahead == nil {
			gather()
			return
		}
		r.ahead.wait(r, gather)
	})
}

// answer answers a query of another gateway. It queries no other gateway.
func (g *gateway) answer(r *request) {
	r.local = r.at.Epoch.Local()
	g.heard(r)
	g.gather(r, r.uses)
}

// gather reads the given uses from memory, disk and store, and the others by queries to their
// owners.
func (g *gateway) gather(r *request, uses []use) {
	var whole, ranged []use
	for _, u := range uses {
		if g.memory.shelf.Has(u.chunk) {
			g.count.Hits++
		} else {
			g.count.Misses++
		}
		if g.pays(r, u) {
			whole = append(whole, u)
		} else {
			ranged = append(ranged, u)
		}
	}
	if r.visit != nil && r.visit.Opens {
		whole, ranged = g.firstOf(r, whole, ranged)
	}
	switch {
	case len(ranged) > 0:
		g.gatherCopies(r, whole, ranged)
	case len(r.asks) == 0:
		if !g.gatherSlices(r, whole) {
			g.gatherCopies(r, whole, ranged)
		}
	default:
		g.reserve(r, bytesOf(r.asks), func() {
			if !g.gatherSlices(r, whole) {
				g.giveBack(r)
				g.gatherCopies(r, whole, ranged)
			}
		})
	}
}

// gatherSlices serves the request's own part by leases. It returns false if that part does not fit
// into memory now.
func (g *gateway) gatherSlices(r *request, whole []use) bool {
	one := g.both(r)
	leased := func(held []int32) {
		r.held = held
		one()
	}
	if !g.acquire(r, whole, leased) {
		return false
	}
	g.ask(r, one)
	return true
}

// gatherCopies serves the whole request from a separate body.
func (g *gateway) gatherCopies(r *request, whole, ranged []use) {
	g.reserve(r, r.bytes-r.took, func() {
		one := g.both(r)
		g.ask(r, one)
		g.copies(r, whole, ranged, one)
	})
}

// both returns a function that must be called twice: when this gateway has read its part of a
// request, and when the other gateways have sent their parts.
func (g *gateway) both(r *request) (one func()) {
	left := 2
	return func() {
		if left--; left == 0 {
			g.answered(r)
		}
	}
}

// reserve reserves memory for n bytes of a request, and an eighth more for the gaps between samples
// in one read.
func (g *gateway) reserve(r *request, n int64, ready func()) {
	room := func(n int64) int64 { return min(int64(float64(n+n/8)*g.bodies), g.set.CacheSize) }
	r.room = room(n)
	switch {
	case r.run != nil && g.memory.take(r.room, chunkcache.Soon):
		ready()
	case r.full == nil:
		if r.run != nil {
			r.room = room(n + r.took)
			r.release()
			r.asks = g.ownersOf(r.far)
		}
		g.memory.reserve(r.room, ready)
	case g.memory.take(r.room, chunkcache.Soon):
		ready()
	default:
		r.room = 0
		r.full() // waiting could deadlock gateways that wait for each other's memory
	}
}

// giveBack frees the memory of a request's body.
func (g *gateway) giveBack(r *request) {
	n := r.room
	if r.room = 0; n > 0 {
		g.memory.give(n)
	}
}

// answered records that a request's bytes have arrived.
func (g *gateway) answered(r *request) {
	g.ownReads -= r.ownReads
	if r.visit != nil && r.visit.Answered(g.clock.instant()) {
		g.look() // the reader has its first batch, so all fetchers may prefetch for it
	}
	if r.turn > 0 {
		g.asking.leave(r.turn)
	}
	if r.ahead != nil {
		r.ahead.next()
	}
	r.ready()
}

// close releases everything that a request holds after its answer has been sent.
func (g *gateway) close(r *request) {
	for _, c := range r.held {
		g.memory.release(c)
	}
	g.giveBack(r)
	r.release()
	if r.visit != nil {
		r.visit.Ended(g.clock.instant())
	}
}

// pays reports whether a chunk should be in memory as a whole, given its expected use while it
// stays.
func (g *gateway) pays(r *request, u use) bool {
	c := &g.data.Chunks[u.chunk]
	most := g.data.bytesOf(u.chunk, u.samples) >= c.Length-c.Length/8
	if c.Extents > 0 && c.Stored == 0 && !g.readsDisk(u.chunk) {
		return g.memory.shelf.Has(u.chunk) || most // each object costs one read in any case
	}
	if g.memory.contains(u.chunk) || g.readsDisk(u.chunk) || c.Stored > 0 {
		return true
	}
	if g.cluster.owner(u.chunk) != g {
		return most // another gateway owns it
	}
	if r.visit != nil && !r.visit.ComesFor(int(u.chunk)) {
		return most // its home is with the ranks of another gateway
	}
	if g.fits {
		return true
	}
	if coming := g.readers.NextUse(g, int(u.chunk)); r.local && coming.Soon {
		return g.worth(u.chunk, max(coming.Samples, uint64(u.samples)))
	}
	if r.visit == nil { // more of the chunk may be needed than the query requests
		spare := policy.Ahead(g.memory.total)-g.memory.inUse >= g.Cost(int(u.chunk))
		return r.local && spare || g.wholePays(u.chunk, u.samples)
	}
	return most
}

// worth reports whether to read a chunk whole if readers will use the given number of its samples
// while it is in memory. The cost of the unneeded bytes must be below the cost of one store read
// for each sample.
func (g *gateway) worth(chunk int32, samples uint64) bool {
	c := &g.data.Chunks[chunk]
	if int64(samples) >= g.data.samplesOf(chunk) || g.readsDisk(chunk) || c.Stored > 0 {
		return true
	}
	return g.wholePays(chunk, int64(samples))
}

// wholePays reports whether reading a chunk whole costs less than reading the given number of its
// samples by their ranges.
func (g *gateway) wholePays(chunk int32, samples int64) bool {
	c := &g.data.Chunks[chunk]
	return policy.WholePays(c.Length, max(c.Extents, 1), g.data.bytesOf(chunk, samples), samples*g.data.each(), g.rates.Cost())
}

// acquire leases chunks, loads the missing ones, and calls done when all are in memory. It returns
// false, and does nothing, if they do not fit into memory together now.
func (g *gateway) acquire(r *request, uses []use, done func(held []int32)) bool {
	m := g.memory
	var held, missing, coming []int32
	var need int64
	for _, u := range uses {
		switch {
		case m.shelf.Lease(u.chunk):
			held = append(held, u.chunk)
		case m.loads[u.chunk] != nil:
			coming = append(coming, u.chunk)
		default:
			missing = append(missing, u.chunk)
			need += g.Cost(int(u.chunk)) + g.data.Chunks[u.chunk].extra()
		}
	}
	if need > 0 && !m.take(need, g.dueLast(missing)) {
		for _, c := range held {
			m.release(c)
		}
		return false
	}
	for _, c := range missing {
		m.begin(c, g.Cost(int(c)))
	}
	if r.local {
		g.look() // after the loads of this request
	}
	left := len(missing) + len(coming)
	if left == 0 {
		done(held)
		return true
	}
	for _, c := range append(coming, missing...) {
		m.wait(c, func() {
			held = append(held, c)
			if left--; left == 0 {
				done(held)
			}
		})
	}
	part := g.set.PartSize
	if r.first {
		var total int64
		for _, c := range missing {
			total += g.data.Chunks[c].stored()
		}
		part = policy.FirstPart(total, part, g.set.Fetchers)
	}
	for _, group := range g.group(missing, part) {
		g.load(group, part, false, func() {})
	}
	return true
}

// firstOf moves the chunks of a first batch that are not in memory from whole to ranged, if the
// batch then arrives clearly sooner.
func (g *gateway) firstOf(r *request, whole, ranged []use) (rest, moved []use) {
	f := policy.First{Ahead: g.ownReads, Own: g.set.Fetchers, Part: g.set.PartSize, Places: g.set.Fetchers, Cost: g.rates.Cost()}
	moved = ranged
	for _, u := range whole {
		c := &g.data.Chunks[u.chunk]
		if g.memory.shelf.Has(u.chunk) || g.readsDisk(u.chunk) || c.Stored > 0 || c.Extents > 0 {
			rest = append(rest, u)
			continue
		}
		moved = append(moved, u)
		f.Reads += int64(len(g.data.ranges(u, g.set.PartSize)))
		f.Bytes, f.Stored = f.Bytes+g.data.bytesOf(u.chunk, u.samples), f.Stored+c.Length
	}
	if !f.ByRanges() {
		return whole, ranged
	}
	r.visit.Alone()
	r.ownReads += f.Reads
	g.ownReads += f.Reads
	return rest, moved
}

// copies serves a request from a separate body. It copies samples from whole chunks, a few at a
// time, as far as there is room for them, and reads the others by their ranges.
func (g *gateway) copies(r *request, whole, ranged []use, all func()) {
	chunks := make([]int32, len(whole))
	byChunk := make(map[int32]use, len(whole))
	for i, u := range whole {
		chunks[i], byChunk[u.chunk] = u.chunk, u
	}
	var tasks []func(done func())
	for _, group := range g.group(chunks, g.set.PartSize) {
		uses := make([]use, len(group))
		for i, c := range group {
			uses[i] = byChunk[c]
		}
		tasks = append(tasks, func(done func()) {
			copied := func(held []int32) {
				for _, c := range held {
					g.memory.release(c)
				}
				done()
			}
			if !g.acquire(r, uses, copied) {
				ranged = append(ranged, uses...)
				done()
			}
		})
	}
	abreast(tasks, g.set.Fetchers, func() {
		if r.local {
			g.look()
		}
		g.readRanges(r, ranged, all)
	})
}

// readRanges reads samples by their ranges.
func (g *gateway) readRanges(r *request, uses []use, all func()) {
	var tasks []func(done func())
	for _, u := range uses {
		read := g.demand
		if r.ownReads > 0 {
			read = g.demandFirst
		}
		if g.data.Chunks[u.chunk].Extents > 0 && g.readers.NextUse(g, int(u.chunk)).Soon {
			read = g.demandLone
		}
		for _, n := range g.data.ranges(u, g.set.PartSize) {
			g.count.Ranges++
			tasks = append(tasks, func(done func()) { read(n, atEnd(n, done)) })
		}
	}
	abreast(tasks, g.set.Fetchers, all)
}

// abreast runs tasks, at most limit concurrently, and calls all when they are done.
func abreast(tasks []func(done func()), limit int, all func()) {
	running, inside := 0, false
	var more func()
	more = func() {
		if inside {
			return // the loop below continues
		}
		inside = true
		for running < limit && len(tasks) > 0 {
			task := tasks[0]
			tasks = tasks[1:]
			running++
			task(func() {
				running--
				more()
			})
		}
		inside = false
		if running == 0 && len(tasks) == 0 {
			all()
		}
	}
	more()
}
