package simulate

import (
	"strconv"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// readAhead requests samples of a rank's next batches from the gateways that own them, while the
// rank computes on the current ones. It requests several batches at a time, as one run. A batch
// waits for its run if that is still loading. So links are used while ranks train, and no sample is
// requested twice.
type readAhead struct {
	lookahead.Course[runResult]
	gateway *gateway
	think   time.Duration
}

// batchRun is a run: the samples that some consecutive batches need from other gateways.
type batchRun = lookahead.Run[runResult]

// runResult is the result of a run.
type runResult struct {
	samples map[uint64]bool
	arrived latch
	cost    int64 // bytes of memory that the run takes
	shown   int   // number of open requests that use it
	over    bool  // no later request needs it
}

// come records a batch. far reports that other gateways own a part of it. A rank begins with the
// first such batch.
func (a *readAhead) come(r *request, far bool) {
	if far || a.At().Epoch != nil {
		a.think = r.visit.Think
		a.drop(a.Come(r.at))
	}
}

// next begins the next run if it is due and no request waits for memory. The run is loaded after
// the other events of this instant, so it can use memory that the batch frees.
func (a *readAhead) next() {
	g := a.gateway
	if l := g.limits(); l.Left(g.aheadHeld) < l.Run() || len(g.memory.queue.waiters) > 0 {
		return
	}
	if n := a.Next(); n != nil {
		g.clock.start(func() {
			g.clock.sleep(0)
			a.bring(n)
		})
	}
}

// drop ends the use of runs that no request needs any more.
func (a *readAhead) drop(runs []*batchRun) {
	for _, n := range runs {
		n.Came.over = true
		a.gateway.free(n)
	}
}

// free frees the memory of a run that has arrived and that no open or later request uses.
func (g *gateway) free(n *batchRun) {
	if came := &n.Came; came.over && came.arrived.done && came.shown == 0 && came.cost > 0 {
		g.aheadHeld -= came.cost
		g.memory.inUse -= came.cost
		came.cost = 0
		g.clock.after(0, g.memory.nudge)
	}
}

// limits returns the limits of read-ahead, as in the data path.
func (g *gateway) limits() *lookahead.Limits {
	return &lookahead.Limits{Memory: g.set.CacheSize, Question: lookahead.QuestionBytes, Fits: g.fits}
}

// bring requests the samples of a run from their owners.
func (a *readAhead) bring(n *batchRun) {
	g := a.gateway
	wanted, end := n.Plan(g, g.limits())
	a.Cut(n, end)
	questions := g.ownersOf(g.data.usesOf(wanted))
	if g.room(n, bytesOf(questions)) {
		n.Came.samples = map[uint64]bool{}
		g.clock.each(len(questions), len(questions), func(i int) {
			if !g.question(&request{at: n.At}, a.think, questions[i]) {
				return
			}
			for _, u := range questions[i].uses {
				for _, x := range u.places {
					n.Came.samples[x] = true
				}
			}
		})
	}
	n.Came.arrived.open(g.clock)
	g.free(n)
	a.next()
}

// room reserves memory for a run.
func (g *gateway) room(n *batchRun, bytes int64) bool {
	cost := chunkcache.Cost(bytes)
	if bytes == 0 || g.limits().Left(g.aheadHeld) < cost || !g.memory.take(cost, chunkcache.Soon) {
		return false
	}
	g.aheadHeld += cost
	n.Came.cost = cost
	return true
}

// wait waits for the run of a request, if the request is in one. The request uses the run's samples
// until the request is closed.
func (a *readAhead) wait(r *request) {
	if r.run = a.Find(r.at); r.run != nil {
		r.run.Came.shown++
		a.drop(a.Had(r.at))
		r.run.Came.arrived.wait(a.gateway.clock)
	}
}

// take returns the uses of a request without the samples that its run has delivered.
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

// release ends the request's use of its run. A request that waits for memory must not hold any.
func (r *request) release() {
	if r.run != nil {
		r.run.Came.shown--
		r.ahead.gateway.free(r.run)
	}
	r.run, r.took = nil, 0
}

// giveUp drops runs that no request uses until n bytes are free.
func (g *gateway) giveUp(n int64) {
	var back int64
	for _, a := range g.aheads {
		a.drop(a.Drop(func(r *batchRun) bool {
			goes := back < n && r.Came.arrived.done && r.Came.shown == 0
			if goes {
				back += r.Came.cost
			}
			return goes
		}))
	}
}

// ChunkOf, Owner and Mean implement lookahead.Elsewhere.
func (g *gateway) ChunkOf(sample uint64) int { return int(g.data.chunkOf(sample)) }

func (g *gateway) Owner(chunk int) string {
	if !g.elsewhere(int32(chunk)) {
		return ""
	}
	return strconv.Itoa(int(g.cluster.owners[chunk]))
}

func (g *gateway) Mean(chunk int) int64 { return g.data.bytesOf(int32(chunk), 1) }
