package simulate

import (
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// request is one batch of one rank, or a query of another gateway.
type request struct {
	at    shuffle.Cursor
	uses  []use
	bytes int64 // bytes of the body

	visit    *lookahead.Visit // nil: a query of another gateway, which does not wait for memory
	ownReads int64            // store reads by sample ranges, if this is a first batch that does not wait for whole chunks
	ahead    *readAhead       // read-ahead of its rank; nil: none
	run      *batchRun        // run that the request is in; nil: none
	took     int64            // bytes that the run has delivered
	far      []use            // uses that other gateways own
	asks     []question       // queries for the part of far that the run has not delivered
	local    bool             // its order has locality, so its reader needs the rest of its chunks soon
	first    bool             // its reader is new: nothing was prefetched for it
	held     []use            // chunks leased until the answer is sent
	room     int64            // bytes of memory for a separate body
}

// read reads a request's bytes as the data path does. It leases the chunks if they fit into memory
// together, and otherwise copies samples to a separate body.
func (g *gateway) read(r *request) {
	for _, u := range r.uses {
		r.bytes += g.data.bytesOf(u.chunk, u.samples)
	}
	g.count.Served += r.bytes
	r.local = r.at.Epoch.Local()
	g.moved(r)
	turn := g.far(r)
	if r.ahead != nil {
		r.ahead.come(r, turn > 0)
	}
	uses := r.uses
	if turn > 0 {
		g.asking.enter(turn)
		if r.ahead != nil {
			r.ahead.wait(r)
		}
		uses = g.questions(r)
	}
	g.gather(r, uses)
	g.ownReads -= r.ownReads
	if r.visit.Answered(g.clock.instant()) {
		g.look() // the reader has its first batch, so all fetchers may prefetch for it
	}
	if turn > 0 {
		g.askable += turn
		g.asking.next()
	}
	if r.ahead != nil {
		r.ahead.next()
	}
}

// answer reads the bytes of a query of another gateway, for a rank with a think time. It queries no
// other gateway. It returns false if there is no memory.
func (g *gateway) answer(r *request, think time.Duration) bool {
	r.local = r.at.Epoch.Local()
	g.readers.Heard(g, r.at, think, g.clock.instant()) // the chunks that the rank will request are prefetched
	return g.gather(r, r.uses)
}

// gather reads the given uses from memory, disk and store, and the others by queries to their
// owners. It returns false if there is no memory for the answer to a query.
func (g *gateway) gather(r *request, uses []use) bool {
	for _, u := range uses {
		if g.memory.shelf.Has(u.chunk) {
			g.count.Hits++
		} else {
			g.count.Misses++
		}
	}
	whole, ranged := g.chooseReads(r, uses)
	if r.visit != nil && r.visit.Opens {
		whole, ranged = g.firstOf(r, whole, ranged)
	}
	if len(ranged) == 0 {
		if len(r.asks) > 0 {
			g.reserve(r, bytesOf(r.asks))
		}
		if loads, ok := g.acquire(r, whole); ok {
			g.ask(r)
			g.wait(loads)
			r.held = whole
			return true
		}
		g.giveBack(r)
	}
	if !g.reserve(r, r.bytes-r.took) {
		return false
	}
	g.clock.each(2, 2, func(i int) {
		if i == 0 {
			g.ask(r)
		} else {
			g.copies(r, whole, ranged)
		}
	})
	return true
}

// chooseReads splits uses into those that are read whole and those that are read by their ranges.
func (g *gateway) chooseReads(r *request, uses []use) (whole, ranged []use) {
	for _, u := range uses {
		if g.pays(r, u) {
			whole = append(whole, u)
		} else {
			ranged = append(ranged, u)
		}
	}
	return whole, ranged
}

// reserve reserves memory for n bytes of a request, and an eighth more for the gaps between samples
// in one read. It returns false for a query if there is none: waiting could deadlock gateways that
// wait for each other's memory.
func (g *gateway) reserve(r *request, n int64) bool {
	room := func(n int64) int64 { return min(int64(float64(n+n/8)*g.bodies), g.set.CacheSize) }
	r.room = room(n)
	switch {
	case (r.visit == nil || r.run != nil) && g.memory.take(r.room, chunkcache.Soon):
		return true
	case r.visit == nil:
		r.room = 0
		return false
	case r.run != nil:
		r.room = room(n + r.took)
		r.release()
		r.asks = g.ownersOf(r.far)
	}
	g.memory.queue.enter(r.room)
	return true
}

// giveBack frees the memory of a request's body.
func (g *gateway) giveBack(r *request) {
	n := r.room
	if r.room = 0; n > 0 {
		g.memory.give(n)
	}
}

// close releases everything that a request holds after its answer has been sent.
func (g *gateway) close(r *request) {
	g.releaseAll(r.held)
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

// acquire leases chunks, and starts to load the missing ones. It returns the loads to wait for. It
// returns false, and does nothing, if the chunks do not fit into memory together now.
func (g *gateway) acquire(r *request, uses []use) (loads []*load, ok bool) {
	m := g.memory
	var held []use
	var missing []int32
	var need, stored int64
	for _, u := range uses {
		switch l := m.loads[u.chunk]; {
		case m.shelf.Lease(u.chunk):
			held = append(held, u)
		case l != nil:
			loads = append(loads, l)
		default:
			missing = append(missing, u.chunk)
			need += g.Cost(int(u.chunk)) + g.data.Chunks[u.chunk].extra()
			stored += g.data.Chunks[u.chunk].stored()
		}
	}
	if need > 0 && !m.take(need, g.dueLast(missing)) {
		g.releaseAll(held)
		return nil, false
	}
	for _, c := range missing {
		loads = append(loads, m.begin(c, g.Cost(int(c))))
	}
	for _, l := range loads {
		l.refs++
	}
	part := g.set.PartSize
	if r.first {
		part = policy.FirstPart(stored, part, g.set.Fetchers)
	}
	for _, group := range policy.Group(missing, g.place, part) {
		g.clock.start(func() { g.load(group, part, false) })
	}
	if r.local {
		g.look() // after the loads of this request
	}
	return loads, true
}

// wait waits for loads.
func (g *gateway) wait(loads []*load) {
	for _, l := range loads {
		l.wait(g.clock)
	}
}

// releaseAll ends the leases of the chunks of some uses.
func (g *gateway) releaseAll(uses []use) {
	for _, u := range uses {
		g.memory.release(u.chunk)
	}
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
func (g *gateway) copies(r *request, whole, ranged []use) {
	groups := policy.Group(whole, func(u use) policy.Place { return g.place(u.chunk) }, g.set.PartSize)
	g.clock.each(len(groups), g.set.Fetchers, func(i int) {
		loads, ok := g.acquire(r, groups[i])
		if !ok {
			ranged = append(ranged, groups[i]...)
			return
		}
		g.wait(loads)
		g.releaseAll(groups[i])
	})
	if r.local {
		g.look()
	}
	g.readRanges(r, ranged)
}

// readRanges reads samples by their ranges.
func (g *gateway) readRanges(r *request, uses []use) {
	var lengths []int64
	var gates [][]*gate // of each read
	for _, u := range uses {
		at := []*gate{g.gate}
		if r.ownReads > 0 {
			at = []*gate{g.first}
		}
		if g.data.Chunks[u.chunk].Extents > 0 && g.readers.NextUse(g, int(u.chunk)).Soon {
			at = []*gate{g.lone, g.gate}
		}
		for _, n := range g.data.ranges(u, g.set.PartSize) {
			lengths, gates = append(lengths, n), append(gates, at)
		}
	}
	g.count.Ranges += int64(len(lengths))
	g.clock.each(len(lengths), g.set.Fetchers, func(i int) { g.demand(lengths[i], nil, gates[i]...) })
}
