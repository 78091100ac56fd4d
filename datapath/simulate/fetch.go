package simulate

import (
	"slices"

	"github.com/millrace-data/millrace/datapath/policy"
)

// place returns the location of a chunk, for policy.Group. A chunk on disk is a group of its own.
func (g *gateway) place(chunk int32) policy.Place {
	c := &g.data.Chunks[chunk]
	return policy.Place{Shard: c.Shard, Offset: c.Offset, Length: c.stored(), Alone: c.Extents > 0 || g.readsDisk(chunk)}
}

// load reads chunks whose memory is reserved. It uses one read, or reads one chunk in parts,
// concurrently. ahead reports that the caller holds a place of the gate of the tier that is read.
func (g *gateway) load(chunks []int32, part int64, ahead bool) {
	if g.readsDisk(chunks[0]) {
		g.readDisk(chunks[0], ahead)
		g.arrived(chunks[0])
		return
	}
	var n int64
	for _, c := range chunks {
		n += g.data.Chunks[c].stored()
	}
	parts := int64(1)
	if objects := g.data.Chunks[chunks[0]].Extents; objects > 0 {
		parts = objects
	} else if len(chunks) == 1 {
		parts = policy.Parts(n, part, g.set.PartSize)
	}
	left := chunks
	var end int64 // end of the last arrived chunk, as an offset in the read
	g.readParts(n, int(parts), ahead, func(total int64) {
		for len(left) > 1 && end+g.data.Chunks[left[0]].stored() <= total {
			end += g.data.Chunks[left[0]].stored()
			g.arrived(left[0])
			left = left[1:]
		}
	})
	g.arrived(left[0])
	for _, c := range chunks {
		g.keep(c)
	}
}

// arrived delivers a chunk to its waiters.
func (g *gateway) arrived(chunk int32) {
	g.memory.arrived(chunk)
	if n := g.data.Chunks[chunk].extra(); n > 0 {
		g.memory.give(n)
	}
}

// readParts reads the n bytes of one load in parts. For a request each part takes its own place. A prefetch
// uses the place that its caller holds, and others while they are free. came is called with the
// number of bytes of a part that have arrived.
func (g *gateway) readParts(n int64, parts int, ahead bool, came func(total int64)) {
	part := func(i int) int64 { return n*int64(i+1)/int64(parts) - n*int64(i)/int64(parts) }
	if !ahead {
		g.clock.each(parts, parts, func(i int) { g.demand(part(i), came, g.gate) })
		return
	}
	places := 1
	for places < parts && g.gate.enterAhead(g.gate.limit) {
		places++
	}
	g.clock.each(parts, places, func(i int) { g.fetch(part(i), came) })
	for range places - 1 {
		g.gate.leaveAhead()
	}
}

// demand makes one store read for a request, in a place of each gate.
func (g *gateway) demand(n int64, came func(total int64), gates ...*gate) {
	for _, gate := range gates {
		gate.enter()
	}
	g.fetch(n, came)
	for _, gate := range slices.Backward(gates) {
		gate.leave()
	}
}

// fetch makes one store read. came, unless nil, is called with the number of bytes that have
// arrived.
func (g *gateway) fetch(n int64, came func(total int64)) {
	g.count.Reads++
	g.count.StoreBytes += n
	g.count.LinkIn += n
	g.clock.sleep(g.set.FirstByte)
	begin := g.clock.now
	g.clock.transfer(n, came, g.store, g.down)
	g.rates.Note(g.set.FirstByte, n, g.clock.now-begin)
}
