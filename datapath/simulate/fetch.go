package simulate

import "github.com/millrace-data/millrace/datapath/policy"

// group groups chunks, in ascending order, so that one store read of at most part bytes loads each
// group. A chunk on disk is a group of its own.
func (g *gateway) group(chunks []int32, part int64) [][]int32 {
	return policy.Group(chunks, func(chunk int32) policy.Place {
		c := &g.data.Chunks[chunk]
		return policy.Place{Shard: c.Shard, Offset: c.Offset, Length: c.stored(), Alone: c.Extents > 0 || g.readsDisk(chunk)}
	}, part)
}

// load reads chunks whose memory is reserved, and calls done. It uses one read, or reads one chunk
// in parts, concurrently. ahead reports that the caller holds a place of the gate of the tier that
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
	var end int64 // end of the last arrived chunk, as an offset in the read
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

// readParts reads the parts of one load. For a request each part takes its own place. A prefetch
// uses the place that its caller holds, and others while they are free. came is called with the
// number of bytes of a part that have arrived.
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

// demand makes one store read for a request.
func (g *gateway) demand(n int64, came func(total int64)) { g.within(&g.gate, g.fetch, n, came) }

// demandFirst makes one store read by sample ranges for a first batch, concurrent with the reads of
// whole chunks.
func (g *gateway) demandFirst(n int64, came func(total int64)) { g.within(&g.first, g.fetch, n, came) }

// demandLone makes one store read of an object whose chunk is also prefetched.
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

// fetch makes one store read. came is called with the number of bytes that have arrived.
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
