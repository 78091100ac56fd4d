package simulate

// group joins chunks, ascending, that lie side by side in one shard into lists that one store read of at most part bytes
// brings. A chunk on disk is by itself.
func (g *gateway) group(chunks []int32, part int64) [][]int32 {
	var groups [][]int32
	var end, size int64
	shard := -1
	for _, c := range chunks {
		d := &g.data.Chunks[c]
		switch {
		case g.disk != nil && g.disk.has(c):
			groups, shard = append(groups, []int32{c}), -1
			continue
		case d.Shard == shard && d.Offset == end && size+d.Length <= part:
			groups[len(groups)-1] = append(groups[len(groups)-1], c)
			size += d.Length
		default:
			groups, size = append(groups, []int32{c}), d.Length
		}
		shard, end = d.Shard, d.Offset+d.Length
	}
	return groups
}

// load brings chunks whose memory is taken, by one read or by the parts of one chunk side by side, and calls done. ahead says
// that the caller holds a place of the gate.
func (g *gateway) load(chunks []int32, part int64, ahead bool, done func()) {
	arrived := func() {
		for _, c := range chunks {
			g.memory.arrived(c)
			g.memory.shelf.Warm(c, g.queue.horizon.Has(g, int(c))) // its reader may have gone on
		}
		done()
	}
	if g.disk != nil && g.disk.has(chunks[0]) {
		n := g.data.Chunks[chunks[0]].Length
		g.count.DiskReads++
		g.count.DiskBytes += n
		g.disk.line.send(n, arrived)
		return
	}
	var parts []int64
	for _, c := range chunks {
		parts = append(parts, g.data.Chunks[c].Length)
	}
	if len(chunks) > 1 {
		var n int64
		for _, l := range parts {
			n += l
		}
		parts = []int64{n}
	} else {
		parts = g.parts(parts[0], part)
	}
	g.readParts(parts, ahead, func() {
		for _, c := range chunks {
			g.keep(c)
		}
		arrived()
	})
}

// parts cuts a chunk into reads of about part bytes, never more than half as much again.
func (g *gateway) parts(length, part int64) []int64 {
	n := max((length+part/2)/part, (length+g.set.PartSize-1)/g.set.PartSize, 1)
	if g.coarse && n > 1 {
		g.count.Reads += n - 1
		return []int64{length}
	}
	parts := make([]int64, n)
	for i := range n {
		parts[i] = length*(i+1)/n - length*i/n
	}
	return parts
}

// readParts reads the parts of one load: each in its own turn where somebody waits, else in the place that is held and
// in others as far as nobody needs them.
func (g *gateway) readParts(parts []int64, ahead bool, done func()) {
	places := len(parts)
	if ahead {
		for places = 1; places < len(parts) && g.gate.enterAhead(g.gate.limit); {
			places++
		}
	}
	tasks := make([]func(func()), len(parts))
	for i, n := range parts {
		tasks[i] = func(read func()) { g.demand(n, read) }
		if ahead {
			tasks[i] = func(read func()) { g.fetch(n, read) }
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

// demand is one store read for somebody who waits.
func (g *gateway) demand(n int64, done func()) {
	g.gate.enter(func() {
		g.fetch(n, func() {
			g.gate.leave()
			done()
		})
	})
}

// fetch is one store read.
func (g *gateway) fetch(n int64, done func()) {
	g.count.Reads++
	g.count.StoreBytes += n
	g.clock.after(g.set.FirstByte, func() { g.store.send(n, done) })
}
