package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
)

// moved records the position of a request's reader, and predicts its needs from there.
func (g *gateway) moved(r *request) {
	r.visit = g.readers.Asked(g, r.at, g.clock.instant())
	r.first = r.local && r.visit.First
	at := &r.at
	g.came = max(g.came, float64(at.Epoch.Number()*at.Plan.Samples()+at.First)/g.set.Rate)
}

// look schedules a pass after all other events of the same instant.
func (g *gateway) look() {
	if g.passing {
		return
	}
	g.passing = true
	g.clock.after(0, g.pass)
}

// pass starts reads of the chunks that readers will need, in order of need, until no place is free,
// there is no room, or nothing is left to fetch.
func (g *gateway) pass() {
	g.passing = false
	g.readers.Forget(g.clock.instant())
	for n := range g.readers.Missing() {
		if !g.fits && !g.worth(int32(n.Chunk), n.Samples) {
			continue
		}
		group := g.together(n)
		due := chunkcache.Later(g.dueLast(group))
		if len(g.memory.queue.waiters) > 0 || !g.memory.hasRoom(g.Cost(n.Chunk), due) {
			g.short = true
			return
		}
		gate, most := g.gate, g.gate.limit
		if g.readsDisk(group[0]) {
			gate, most = g.disk.gate, g.disk.gate.limit
		}
		if n.First {
			most = policy.Early(g.gate.limit)
		}
		if !gate.enterAhead(most) {
			return // the next read that leaves the gate calls look
		}
		var need int64
		for _, c := range group {
			need += g.Cost(int(c)) + g.data.Chunks[c].extra()
		}
		if !g.memory.take(need, due) {
			g.short = true
			gate.ahead-- // idle is not called: there is no room for the next chunk either
			return
		}
		for _, c := range group {
			g.memory.begin(c, g.Cost(int(c)))
		}
		g.clock.start(func() {
			g.load(group, g.set.PartSize, true)
			gate.leaveAhead()
		})
	}
}

// together returns the chunk of a need, followed by the chunks behind it in the same shard that
// some reader needs soon, up to the length of one read.
func (g *gateway) together(n lookahead.Need) []int32 {
	return policy.Together(int32(n.Chunk), g.place, g.set.PartSize, func(next int32) bool {
		if int(next) == len(g.data.Chunks) || g.memory.contains(next) {
			return false
		}
		coming := g.readers.NextUse(g, int(next))
		return coming.Soon && (g.fits || g.worth(next, coming.Samples))
	})
}
