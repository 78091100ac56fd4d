package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
)

// moved notes where a request's reader stands, and what it comes for soon.
func (g *gateway) moved(r *request) {
	r.visit = g.readers.Asked(g, r.at, g.clock.instant())
	r.first = r.local && r.visit.First
	at := &r.at
	g.came = max(g.came, float64(at.Epoch.Number()*at.Plan.Samples()+at.First)/g.set.Rate)
}

// heard notes where a rank of another gateway stands, so that what it will ask for is here in time.
func (g *gateway) heard(r *request) {
	g.readers.Heard(g, r.at, r.think, g.clock.instant())
}

// look makes the gateway look again for what to fetch ahead, once all that happens at this instant has happened.
func (g *gateway) look() {
	if g.passing {
		return
	}
	g.passing = true
	g.clock.after(0, g.pass)
}

// pass starts reads of what readers will need, in order of need, until there is no place, no room or nothing left to
// fetch.
func (g *gateway) pass() {
	g.passing = false
	g.readers.Forget(g.clock.instant())
	for n := range g.readers.Missing() {
		if !g.fits && !g.worth(int32(n.Chunk), n.Samples) {
			continue
		}
		group := g.together(n)
		due := chunkcache.Later(g.dueLast(group))
		if len(g.memory.queue) > 0 || !g.memory.hasRoom(g.Cost(n.Chunk), due) {
			g.short = true
			return
		}
		gate, most := &g.gate, g.gate.limit
		if g.readsDisk(group[0]) {
			gate, most = &g.disk.gate, g.disk.gate.limit
		}
		if n.First {
			most = policy.Early(g.gate.limit)
		}
		if !gate.enterAhead(most) {
			return // the read that leaves makes it look again
		}
		var need int64
		for _, c := range group {
			need += g.Cost(int(c)) + g.data.Chunks[c].beside()
		}
		if !g.memory.take(need, due) {
			g.short = true
			gate.ahead-- // nobody is told: there is no room for the next one either
			return
		}
		for _, c := range group {
			g.memory.begin(c, g.Cost(int(c)))
		}
		g.load(group, g.set.PartSize, true, gate.leaveAhead)
	}
}

// together returns the chunk of a need, and with it those that lie behind it in the same shard and that some reader comes for
// soon, as many as one read brings.
func (g *gateway) together(n lookahead.Need) []int32 {
	group := []int32{int32(n.Chunk)}
	for {
		next := n.Chunk + len(group)
		if next == len(g.data.Chunks) || g.memory.contains(int32(next)) {
			return group
		}
		if coming := g.readers.NextUse(g, next); !coming.Soon || !g.fits && !g.worth(int32(next), coming.Samples) {
			return group
		}
		longer := append(group, int32(next))
		if len(g.group(longer, g.set.PartSize)) > 1 {
			return group
		}
		group = longer
	}
}
