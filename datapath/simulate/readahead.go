package simulate

import (
	"strconv"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// readAhead asks for what other gateways own of the next batches of a rank, while the rank is busy with the batches before: some
// batches at a time, as one. A batch whose run is on its way waits for it. So links work while ranks train, and no sample is asked for
// twice.
type readAhead struct {
	lookahead.Course[brought]
	gateway *gateway
	think   time.Duration
}

// batchRun is what some batches that follow each other need from other gateways.
type batchRun = lookahead.Run[brought]

// brought is what a run has brought.
type brought struct {
	samples map[uint64]bool
	arrived bool
	waiting []func() // until it has arrived
	cost    int64    // bytes of memory that it takes
	shown   int      // by so many requests
	over    bool     // no other request comes for it
}

// come notes a batch. far says that a part of it is another gateway's: with the first such batch a rank begins.
func (a *readAhead) come(r *request, far bool) {
	if far || a.At().Epoch != nil {
		a.think = r.visit.Think
		a.drop(a.Come(r.at))
	}
}

// next begins the next run if it is due, and if there is memory that nobody waits for. It asks beside the batch that it goes with, so
// what that gives back at this instant is there for it.
func (a *readAhead) next() {
	g := a.gateway
	if l := g.limits(); l.Left(g.aheadHeld) < l.Run() || len(g.memory.queue) > 0 {
		return
	}
	if n := a.Next(); n != nil {
		g.clock.after(0, func() { g.clock.after(0, func() { a.bring(n) }) })
	}
}

// drop gives up runs that no request comes for any more.
func (a *readAhead) drop(runs []*batchRun) {
	for _, n := range runs {
		n.Came.over = true
		a.gateway.free(n)
	}
}

// free gives the memory of a run back that has arrived, that nothing shows and no request comes for.
func (g *gateway) free(n *batchRun) {
	if came := &n.Came; came.over && came.arrived && came.shown == 0 && came.cost > 0 {
		g.aheadHeld -= came.cost
		g.memory.inUse -= came.cost
		came.cost = 0
		g.clock.after(0, g.memory.nudge)
	}
}

// limits are how much is read ahead, as in the data path.
func (g *gateway) limits() *lookahead.Limits {
	return &lookahead.Limits{Memory: g.set.CacheSize, Question: lookahead.QuestionBytes, Fits: g.fits}
}

// bring asks the owners for a run, each for its part.
func (a *readAhead) bring(n *batchRun) {
	g := a.gateway
	wanted, end := n.Plan(g, g.limits())
	a.Cut(n, end)
	questions := g.ownersOf(g.data.usesOf(wanted))
	left := 1
	one := func() {
		if left--; left > 0 {
			return
		}
		n.Came.arrived = true
		g.free(n)
		for _, ready := range n.Came.waiting {
			ready()
		}
		a.next()
	}
	if g.room(n, bytesOf(questions)) {
		n.Came.samples = map[uint64]bool{}
		left += len(questions)
		for _, q := range questions {
			g.count.PeerReads++
			g.question(&request{at: n.At, think: a.think, full: one}, q, func() {
				for _, u := range q.uses {
					for _, x := range u.places {
						n.Came.samples[x] = true
					}
				}
				one()
			})
		}
	}
	one()
}

// room takes memory for what a run brings.
func (g *gateway) room(n *batchRun, bytes int64) bool {
	cost := chunkcache.Cost(bytes)
	if bytes == 0 || g.limits().Left(g.aheadHeld) < cost || !g.memory.take(cost, chunkcache.Soon) {
		return false
	}
	g.aheadHeld += cost
	n.Came.cost = cost
	return true
}

// wait calls ready when the run that a request is in is there: its samples are the request's until that is closed. It calls ready at once
// where the request is in no run.
func (a *readAhead) wait(r *request, ready func()) {
	r.run = a.Find(r.at)
	if r.run != nil {
		r.run.Came.shown++
		a.drop(a.Had(r.at))
	}
	if r.run == nil || r.run.Came.arrived {
		ready()
		return
	}
	r.run.Came.waiting = append(r.run.Came.waiting, ready)
}

// take leaves of a request's uses what its run has not brought.
func (r *request) take(uses []use) []use {
	if r.run == nil {
		return uses
	}
	var rest []use
	for _, u := range uses {
		var places []uint64
		for _, x := range u.places {
			if !r.run.Came.samples[x] {
				places = append(places, x)
				continue
			}
			r.took += r.ahead.gateway.data.bytesOf(u.chunk, 1)
			r.ahead.gateway.count.Carried++
		}
		if len(places) > 0 {
			rest = append(rest, use{u.chunk, int64(len(places)), places})
		}
	}
	return rest
}

// release does without the run: what holds its memory waits for none.
func (r *request) release() {
	if r.run != nil {
		r.run.Came.shown--
		r.ahead.gateway.free(r.run)
	}
	r.run, r.took = nil, 0
}

// giveUp gives up runs that nothing shows until n bytes are free.
func (g *gateway) giveUp(n int64) {
	var back int64
	for _, a := range g.aheads {
		a.drop(a.Drop(func(r *batchRun) bool {
			goes := back < n && r.Came.arrived && r.Came.shown == 0
			if goes {
				back += r.Came.cost
			}
			return goes
		}))
	}
}

// ChunkOf, Owner and Mean are what a run asks of what lies elsewhere.
func (g *gateway) ChunkOf(sample uint64) int { return int(g.data.chunkOf(sample)) }

func (g *gateway) Owner(chunk int) string {
	if !g.elsewhere(int32(chunk)) {
		return ""
	}
	return strconv.Itoa(int(g.cluster.owners[chunk]))
}

func (g *gateway) Mean(chunk int) int64 { return g.data.bytesOf(int32(chunk), 1) }
