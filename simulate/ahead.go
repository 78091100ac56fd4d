package simulate

import "github.com/millrace-data/millrace/lookahead"

// queue is what is to be fetched ahead of the readers, in the order of need.
type queue struct {
	horizon *lookahead.Horizon // that it was made for
	needs   []lookahead.Need
	next    int // what comes before is in memory, or on its way
}

// moved notes where a request's reader stands, and what it comes for soon.
func (g *gateway) moved(r *request) {
	r.visit = g.readers.Asked(g, r.at, g.clock.instant())
	r.first = r.local && r.visit.First()
	g.mark()
}

// mark keeps what readers come for while others can go.
func (g *gateway) mark() {
	was, is := g.queue.horizon, g.readers.Horizon()
	if was == is {
		return
	}
	g.queue = queue{horizon: is}
	soon := func(chunk int32) bool { return is.Has(g, int(chunk)) }
	if !is.SameClock(was) {
		g.memory.shelf.SetWarm(soon)
		return
	}
	var changed []int32
	for _, h := range []*lookahead.Horizon{was, is} {
		for p := range h.All() {
			changed = append(changed, int32(p.Chunk))
		}
	}
	g.memory.shelf.Rewarm(soon, changed)
}

// look makes the gateway look again for what to fetch ahead, once all that happens at this instant has happened.
func (g *gateway) look() {
	if g.passing || g.set.NoPrefetch {
		return
	}
	g.passing = true
	g.clock.after(0, g.pass)
}

// pass starts reads of what readers will need, in order of need, until there is no place, no room or nothing left to
// fetch.
func (g *gateway) pass() {
	g.passing = false
	q := &g.queue
	if q.needs == nil {
		q.needs = g.readers.Needs(g.clock.instant())
		g.mark() // readers that have gone are forgotten
	}
	for len(g.memory.queue) == 0 {
		group, most := g.nextGroup()
		if group == nil || !g.gate.enterAhead(most) {
			return // whoever leaves makes it look again
		}
		var need int64
		for _, c := range group {
			need += g.Cost(int(c))
		}
		if !g.memory.take(need) {
			g.gate.ahead-- // nobody is told: there is no room for the next one either
			return
		}
		for _, c := range group {
			g.memory.begin(c, g.Cost(int(c)), true)
		}
		g.load(group, g.set.PartSize, true, g.gate.leaveAhead)
	}
}

// nextGroup returns the chunks that one read should bring next, nil if there are none, and how many fetchers may
// work for their reader.
func (g *gateway) nextGroup() (group []int32, most int) {
	q := &g.queue
	for q.next < len(q.needs) && g.memory.contains(int32(q.needs[q.next].Chunk)) {
		q.next++
	}
	if q.next == len(q.needs) {
		return nil, 0
	}
	most = g.gate.limit
	if q.needs[q.next].First {
		most = early(g.gate.limit)
	}
	var end, size int64
	for i, shard := q.next, -1; i < len(q.needs); i++ {
		c := int32(q.needs[i].Chunk)
		if g.memory.contains(c) {
			continue
		}
		d := &g.data.Chunks[c]
		onDisk := g.disk != nil && g.disk.has(c)
		if group != nil && (onDisk || d.Shard != shard || d.Offset != end || size+d.Length > g.set.PartSize) {
			break
		}
		group = append(group, c)
		if onDisk {
			break
		}
		shard, end, size = d.Shard, d.Offset+d.Length, size+d.Length
	}
	return group, most
}
