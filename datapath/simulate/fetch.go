package simulate

import "github.com/millrace-data/millrace/datapath/policy"

// group groups chunks, ascending, by the store read of at most part bytes that reads them. A chunk
// on disk is a group of its own.
func (g *gateway) group(chunks []int32, part int64) [][]int32 {
	return policy.Group(chunks, func(chunk int32) policy.Place {
		c := &g.data.Chunks[chunk]
		return policy.Place{Shard: c.Shard, Offset: c.Offset, Length: c.stored(), Alone: c.Extents > 0 || g.readsDisk(chunk)}
	}, part)
}

// load reads chunks whose memory is reserved, by one read, or one chunk by concurrent reads of its
// parts, and calls done. ahead reports that the caller holds a place of the gate of the tier that
// is read.
func (g *gateway) load(chunks []int32, part int64, ahead bool, done func()) {
	if g.readsDisk(chunks[0]) {
		g.readDisk(chunks[0], ahead, func() {
			g.arrived(chunks[0])
			done()
		})
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
	var end int64 // end of the last chunk that has arrived, in the read
	g.readParts(cut(n, parts), ahead, func(total int64) {
		for len(left) > 1 && end+g.data.Chunks[left[0]].stored() <= total {
			end += g.data.Chunks[left[0]].stored()
			g.arrived(left[0])
			left = left[1:]
		}
	}, func() {
		g.arrived(left[0])
		done()
		for _, c := range chunks {
			g.keep(c)
		}
	})
}

// arrived delivers a chunk to its waiters.
func (g *gateway) arrived(chunk int32) {
	g.memory.arrived(chunk)
	if n := g.data.Chunks[chunk].extra(); n > 0 {
		g.memory.give(n)
	}
}

// cut splits a length into n parts.
func cut(length, n int64) []int64 {
	parts := make([]int64, n)
	for i := range n {
		parts[i] = length*(i+1)/n - length*i/n
	}
	return parts
}

// readParts reads the parts of one load. For a request each part takes a place of its own; a read
// ahead uses the place that its caller holds, and others while they are free. came is called with
// how many bytes of a part have arrived.
func (g *gateway) readParts(parts []int64, ahead bool, came func(total int64), done func()) {
	places := len(parts)
	if ahead {
		for places = 1; places < len(parts) && g.gate.enterAhead(g.gate.limit); {
			places++
		}
	}
	tasks := make([]func(func()), len(parts))
	for i, n := range parts {
		read := g.demand
		if ahead {
			read = g.fetch
		}
		tasks[i] = func(done func()) {
			read(n, func(total int64) {
				came(total)
				atEnd(n, done)(total)
			})
		}
	}
	abreast(tasks, places, func() {
		if ahead {
			for range places - 1 {
				g.gate.leaveAhead()
			}
		}
		done()
	})
}

// demand is one store read for a request.
func (g *gateway) demand(n int64, came func(total int64)) { g.within(&g.gate, g.fetch, n, came) }

// demandFirst is one store read of a first batch's own ranges, concurrent with those of whole
// chunks.
func (g *gateway) demandFirst(n int64, came func(total int64)) { g.within(&g.first, g.fetch, n, came) }

// demandLone is one store read of an object whose chunk is prefetched too.
func (g *gateway) demandLone(n int64, came func(total int64)) { g.within(&g.lone, g.demand, n, came) }

// within makes a store read in a place of a gate.
func (*gateway) within(gate *gate, read func(n int64, came func(total int64)), n int64, came func(total int64)) {
	gate.enter(func() {
		read(n, func(total int64) {
			if total == n {
				gate.leave()
			}
			came(total)
		})
	})
}

// fetch is one store read. came is called with how many bytes have arrived.
func (g *gateway) fetch(n int64, came func(total int64)) {
	g.count.Reads++
	g.count.StoreBytes += n
	g.count.LinkIn += n
	g.clock.after(g.set.FirstByte, func() {
		begin := g.clock.now
		through(n, func(total int64) {
			if total == n {
				g.rates.Note(g.set.FirstByte, n, g.clock.now-begin)
			}
			came(total)
		}, g.store, g.down)
	})
}
