package simulate

import (
	"slices"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// What is asked for in the background for the next batches of a rank, as in the data path.
const (
	mostCarried   = 8 << 20 // bytes of one question
	carryShare    = 32      // the part of the memory that these are at most
	carriedShare  = 8       // the part that all carried samples may take together
	carriedRuns   = 4       // runs under way at most
	carriedSample = 128     // bytes that a sample takes beside its own
	runFits       = 16      // chunks of one owner that a run asks for before the rank has begun with them
	runFresh      = 8       // and where memory is short
	runRanges     = 1 << 15 // samples of one question
)

// carry is the stock of a rank: samples that other gateways own, asked for while the rank is busy with the batches before. What is under
// way is known: a batch that needs it waits for it. So links work while ranks train, and no sample is asked for twice.
type carry struct {
	lookahead.Course
	gateway  *gateway
	think    time.Duration
	begun    bool // with the first batch of which a part is another gateway's
	served   bool // its first batch is there
	planning bool // it is set that the next run is worked out
	underway int  // runs
	parts    []*carried
}

// carried is what one question brings.
type carried struct {
	owner   *gateway
	cost    int64
	bytes   int64
	fresh   int // chunks that the rank has not begun with
	epoch   uint64
	last    uint64          // first position of the last batch that it is for
	samples map[uint64]bool // that nobody has come for
	all     []uint64
	arrived bool
	failed  bool     // it brought nothing: its owner had no memory to answer
	waiting []func() // until it has arrived
	refs    int      // batches that show some of it, and the question
	gone    bool     // its memory goes back with the last of those
}

// query is how many bytes a question may bring along.
func (g *gateway) query() int64 { return min(mostCarried, g.set.CacheSize/carryShare) }

// come notes a batch, and asks for the next run if it is due. far says that a part of the batch is another gateway's.
func (c *carry) come(r *request, far bool) {
	if !c.begun && !far {
		return
	}
	if c.planning && c.Awaits(r.at) {
		c.plan()
	}
	c.begun, c.think = true, r.visit.Think()
	c.Come(r.at)
	c.retain(func(l *carried) bool { return !c.Behind(l.epoch, l.last) })
	c.more()
}

// answered notes that a batch is there.
func (c *carry) answered() {
	if c.begun {
		c.served = true
		c.more()
	}
}

// more has the next run worked out if it is due, and if there is memory that nobody waits for: beside the batch that it goes with, so
// what that gives back at this instant is there for it.
func (c *carry) more() {
	g := c.gateway
	if !c.served || c.planning || !c.Ready() || c.underway >= carriedRuns || g.carried >= g.set.CacheSize/carriedShare || len(g.memory.queue) > 0 {
		return
	}
	c.planning = true
	g.clock.after(0, func() { g.clock.after(0, c.plan) })
}

// plan works the next run out and asks for it.
func (c *carry) plan() {
	if !c.planning {
		return
	}
	c.planning = false
	g := c.gateway
	next := c.Course
	e := errand{gateway: g, at: next.At(), owners: map[int32]*gateway{}}
	next.Run(e.add)
	if !c.take(e.parts) {
		return
	}
	at := next.At()
	at.First = c.Heard()
	at.End = min(at.First+at.BatchSize, at.Plan.Samples())
	c.Take(next)
	c.parts = append(c.parts, e.parts...)
	c.underway++
	left := 1 + len(e.parts)
	one := func() {
		if left--; left == 0 {
			c.underway--
			c.more()
		}
	}
	for _, l := range e.parts {
		c.bring(at, l, one)
	}
	one()
}

// take takes memory for what a run brings: all of it or nothing.
func (c *carry) take(parts []*carried) bool {
	g := c.gateway
	for i, l := range parts {
		l.cost = chunkcache.Cost(l.bytes + carriedSample*int64(len(l.all)))
		if g.carried+l.cost > g.set.CacheSize/carriedShare || !g.memory.take(l.cost) {
			for _, l := range parts[:i] {
				c.free(l)
			}
			return false
		}
		g.carried += l.cost
		l.refs = 1
	}
	return true
}

// bring asks an owner for its part of a run.
func (c *carry) bring(at shuffle.Cursor, l *carried, done func()) {
	g := c.gateway
	asked := &request{at: at, think: c.think, uses: g.data.usesOf(l.all), bytes: l.bytes}
	arrived := func() {
		l.arrived = true
		for _, ready := range l.waiting {
			ready()
		}
		c.release(l)
		c.retain(func(l *carried) bool { return len(l.samples) > 0 })
		done()
	}
	asked.full = func() {
		l.failed = true
		clear(l.samples)
		arrived()
	}
	asked.ready = func() {
		between(l.owner, g, l.bytes, func() {
			l.owner.close(asked)
			arrived()
		})
	}
	g.count.PeerReads++
	g.clock.after(g.set.PeerLatency, func() { l.owner.answer(asked) })
}

// take leaves of a request's uses what is neither there nor on its way. What is there is the request's until it is closed.
func (r *request) take(uses []use) []use {
	var rest []use
	for _, u := range uses {
		var places []uint64
		for _, x := range u.places {
			i := slices.IndexFunc(r.carry.parts, func(l *carried) bool { return l.samples[x] })
			if i < 0 {
				places = append(places, x)
				continue
			}
			l := r.carry.parts[i]
			delete(l.samples, x)
			r.show(l, x)
			r.took += r.carry.gateway.data.bytesOf(u.chunk, 1)
			r.carry.gateway.count.Carried++
		}
		if len(places) > 0 {
			rest = append(rest, use{u.chunk, int64(len(places)), places})
		}
	}
	r.carry.retain(func(l *carried) bool { return len(l.samples) > 0 })
	return rest
}

// shown is what a request shows of one part of the stock.
type shown struct {
	part    *carried
	samples []uint64
}

func (r *request) show(l *carried, sample uint64) {
	i := slices.IndexFunc(r.shown, func(s shown) bool { return s.part == l })
	if i < 0 {
		i = len(r.shown)
		r.shown = append(r.shown, shown{part: l})
		l.refs++
	}
	r.shown[i].samples = append(r.shown[i].samples, sample)
}

// uncarry does without the stock: nobody waits for memory while he holds some.
func (r *request) uncarry() {
	for _, s := range r.shown {
		r.carry.release(s.part)
	}
	r.shown, r.took = nil, 0
}

// awaited returns what a request waits for.
func (r *request) awaited() (parts []*carried) {
	for _, s := range r.shown {
		if !s.part.arrived {
			parts = append(parts, s.part)
		}
	}
	return parts
}

// late gives up, and returns by chunk, what was on its way to a request and did not come.
func (r *request) late(d *Data) []use {
	var samples []uint64
	r.shown = slices.DeleteFunc(r.shown, func(s shown) bool {
		if s.part.failed {
			samples = append(samples, s.samples...)
			r.carry.release(s.part)
		}
		return s.part.failed
	})
	return d.usesOf(samples)
}

// retain leaves the parts of the stock that are to stay.
func (c *carry) retain(stays func(*carried) bool) {
	c.parts = slices.DeleteFunc(c.parts, func(l *carried) bool {
		if stays(l) {
			return false
		}
		if l.gone = true; l.refs == 0 {
			c.free(l)
		}
		return true
	})
}

// release ends the use of a part.
func (c *carry) release(l *carried) {
	if l.refs--; l.refs == 0 && l.gone {
		c.free(l)
	}
}

func (c *carry) free(l *carried) {
	c.gateway.carried -= l.cost
	c.gateway.memory.give(l.cost)
}

// giveUp gives samples up until n bytes are free, and returns the bytes.
func (g *gateway) giveUp(n int64) (bytes int64) {
	for _, c := range g.stocks {
		c.parts = slices.DeleteFunc(c.parts, func(l *carried) bool {
			goes := l.refs == 0 && bytes < n
			if goes {
				bytes += l.cost
			}
			return goes
		})
	}
	g.carried -= bytes
	return bytes
}

// errand is what is worked out of a run.
type errand struct {
	gateway *gateway
	at      shuffle.Cursor
	owners  map[int32]*gateway // whom to ask for a chunk; nil: nobody
	parts   []*carried
}

// add adds a sample of the batch that begins at a position, if another gateway is to be asked for it. It reports whether the run
// goes on: it ends with the bytes that one question may bring, and with as many chunks as an owner would fetch ahead by itself.
func (e *errand) add(sample, first uint64) bool {
	g := e.gateway
	chunk := g.data.chunkOf(sample)
	owner, known := e.owners[chunk]
	if !known {
		if g.elsewhere(chunk) {
			owner = g.cluster.owner(chunk)
			if !e.begin(owner, chunk) {
				return false
			}
		}
		e.owners[chunk] = owner
	}
	if owner == nil {
		return true
	}
	l := e.part(owner)
	n := g.data.bytesOf(chunk, 1)
	if l.bytes+n+carriedSample*int64(len(l.all)+1) > g.query() || len(l.all) == runRanges {
		return false
	}
	l.bytes, l.last, l.all, l.samples[sample] = l.bytes+n, first, append(l.all, sample), true
	return true
}

// part returns what an owner is asked for.
func (e *errand) part(owner *gateway) *carried {
	i := slices.IndexFunc(e.parts, func(l *carried) bool { return l.owner == owner })
	if i < 0 {
		i = len(e.parts)
		e.parts = append(e.parts, &carried{owner: owner, epoch: e.at.Epoch.Number(), samples: map[uint64]bool{}})
	}
	return e.parts[i]
}

// begin counts a chunk of an owner, and reports whether to ask for it.
func (e *errand) begin(owner *gateway, chunk int32) bool {
	if span, ok := e.at.Epoch.Next(uint64(chunk), e.at.First); ok && span.From < e.at.End {
		return true
	}
	l := e.part(owner)
	l.fresh++
	return l.fresh <= runFresh || e.gateway.fits && l.fresh <= runFits
}
