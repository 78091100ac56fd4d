package simulate

import (
	"slices"

	"github.com/millrace-data/millrace/datapath/lookahead"
)

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
	at := &r.at
	g.came = max(g.came, float64(at.Epoch.Number()*at.Plan.Samples()+at.First)/g.set.Rate)
	g.mark()
}

// heard notes where a rank of another gateway stands, so that what it will ask for is here in time.
func (g *gateway) heard(r *request) {
	g.readers.Heard(g, r.at, r.think, g.clock.instant())
	g.mark()
}

// mark begins a new queue when readers have come to need other chunks.
func (g *gateway) mark() {
	if is := g.readers.Horizon(); g.queue.horizon != is {
		g.queue = queue{horizon: is}
	}
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
		group, first := g.nextGroup()
		if group == nil {
			return
		}
		gate, most := &g.gate, g.gate.limit
		if g.readsDisk(group[0]) {
			gate, most = &g.disk.gate, g.disk.gate.limit
		}
		if first {
			most = early(g.gate.limit)
		}
		if !gate.enterAhead(most) {
			return // whoever leaves makes it look again
		}
		var need int64
		for _, c := range group {
			need += g.Cost(int(c)) + g.data.Chunks[c].beside()
		}
		if !g.memory.take(need, g.dueLast(group)) {
			gate.ahead-- // nobody is told: there is no room for the next one either
			return
		}
		for _, c := range group {
			g.memory.begin(c, g.Cost(int(c)))
		}
		g.load(group, g.set.PartSize, true, gate.leaveAhead)
	}
}

// nearNeeds is how far ahead in the queue a chunk may stand that the read of one before it carries along.
const nearNeeds = 32

// nextGroup returns the chunks that one read should bring next, nil if there are none, and whether their reader waits for its
// first batch: the first that is missing, and with it those near it in the queue that lie behind it in the same shard.
func (g *gateway) nextGroup() (group []int32, first bool) {
	q := &g.queue
	missing := func(n *lookahead.Need) bool {
		return !g.memory.contains(int32(n.Chunk)) && g.worth(int32(n.Chunk), n.Samples)
	}
	for q.next < len(q.needs) && !missing(&q.needs[q.next]) {
		q.next++
	}
	if q.next == len(q.needs) {
		return nil, false
	}
	head := &q.needs[q.next]
	group = []int32{int32(head.Chunk)}
	size := g.data.Chunks[head.Chunk].stored()
	if g.readsDisk(group[0]) || size*2 > g.set.PartSize && g.coarse {
		return group, head.First
	}
	near := q.needs[q.next+1 : min(q.next+nearNeeds, len(q.needs))]
	for {
		last := int(group[len(group)-1])
		i := slices.IndexFunc(near, func(n lookahead.Need) bool { return n.Chunk == last+1 && n.First == head.First })
		if i < 0 || !missing(&near[i]) || g.readsDisk(int32(last+1)) || !g.data.follows(last+1) {
			return group, head.First
		}
		if size += g.data.Chunks[last+1].stored(); size > g.set.PartSize {
			return group, head.First
		}
		group = append(group, int32(last+1))
	}
}
