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
	aheadBytes       = 8 << 20 // bytes of one question
	aheadAll         = 8       // the part of the memory that all runs may take together
	aheadRun         = 32      // the part that one run may take
	aheadRuns        = 4       // runs on their way at most
	aheadRanges      = 1 << 15 // samples of one question
	aheadChunks      = 16      // chunks of one owner that a run asks for before the rank has begun with them
	aheadChunksShort = 4       // and where memory is short
	sampleCost       = 128     // bytes that a sample takes in a question beside its own
)

// readAhead asks for what other gateways own of the next batches of a rank, while the rank is busy with the batches before: some
// batches at a time, as one. A batch whose run is on its way waits for it. So links work while ranks train, and no sample is asked for
// twice.
type readAhead struct {
	lookahead.Course
	gateway  *gateway
	think    time.Duration
	begun    bool // with the first batch of which a part is another gateway's
	served   bool // its first batch is there
	underway int
	runs     []*batchRun
}

// batchRun is what some batches that follow each other need from other gateways.
type batchRun struct {
	at      shuffle.Cursor // of the first one
	end     uint64         // position behind the last one
	came    map[uint64]bool
	cost    int64
	samples map[uint64]bool // that have come
	arrived bool
	waiting []func() // until it has arrived
	refs    int      // batches that show it or wait for it, and the questions
	gone    bool     // its memory goes back with the last of those
}

// come notes a batch, and asks for the next run if it is due. far says that a part of the batch is another gateway's.
func (a *readAhead) come(r *request, far bool) {
	if !a.begun && !far {
		return
	}
	a.begun, a.think = true, r.visit.Think()
	a.Come(r.at)
	a.drop(func(n *batchRun) bool { return lookahead.Passed(r.at, n.at) })
	a.next()
}

// answered notes that a batch is there.
func (a *readAhead) answered() {
	if a.begun {
		a.served = true
		a.next()
	}
}

// next begins the next run if it is due, and if there is memory that nobody waits for. It asks beside the batch that it goes with, so
// what that gives back at this instant is there for it.
func (a *readAhead) next() {
	g := a.gateway
	if !a.served || !a.Ready() || a.underway >= aheadRuns || g.aheadHeld+g.set.CacheSize/aheadRun > g.set.CacheSize/aheadAll || len(g.memory.queue) > 0 {
		return
	}
	at := a.At()
	stands := at
	stands.First = a.Heard()
	stands.End = min(stands.First+at.BatchSize, at.Plan.Samples())
	first, batches := a.Run()
	n := &batchRun{at: at, end: first + batches*at.BatchSize, came: map[uint64]bool{}, samples: map[uint64]bool{}, refs: 1}
	n.at.First = first
	a.runs, a.underway = append(a.runs, n), a.underway+1
	g.clock.after(0, func() { g.clock.after(0, func() { a.bring(n, at, stands) }) })
}

// bring asks the owners for a run, each for its part.
func (a *readAhead) bring(n *batchRun, at, stands shuffle.Cursor) {
	g := a.gateway
	p := plannedRun{gateway: g, at: at, chunks: map[int32]*aheadQuestion{}}
	if end := p.far(n.at.First, (n.end-n.at.First)/at.BatchSize); end < n.end {
		a.Cut(n.at.First, end)
		n.end = end
	}
	left := 1
	one := func() {
		if left--; left > 0 {
			return
		}
		n.arrived = true
		a.underway--
		a.drop(func(x *batchRun) bool { return x == n && len(n.samples) == 0 })
		a.unref(n)
		for _, ready := range n.waiting {
			ready()
		}
		a.next()
	}
	if a.take(n, p.asked) {
		left += len(p.asked)
		for _, q := range p.asked {
			a.ask(n, q, stands, one)
		}
	}
	one()
}

// take takes memory for what a run brings.
func (a *readAhead) take(n *batchRun, asked []*aheadQuestion) bool {
	g := a.gateway
	var bytes int64
	for _, q := range asked {
		bytes += q.bytes
	}
	cost := chunkcache.Cost(bytes)
	if bytes == 0 || g.aheadHeld+cost > g.set.CacheSize/aheadAll || !g.memory.take(cost, chunkcache.Soon) {
		return false
	}
	n.cost = cost
	g.aheadHeld += cost
	return true
}

// ask asks an owner for its part of a run.
func (a *readAhead) ask(n *batchRun, q *aheadQuestion, at shuffle.Cursor, done func()) {
	g := a.gateway
	asked := &request{at: at, think: a.think, uses: g.data.usesOf(q.samples), bytes: q.bytes}
	asked.full = done
	asked.ready = func() {
		between(q.owner, g, q.bytes, func() {
			q.owner.close(asked)
			for _, x := range q.samples {
				n.samples[x] = true
			}
			done()
		})
	}
	g.count.PeerReads++
	g.clock.after(g.set.PeerLatency, func() { q.owner.answer(asked) })
}

// wait calls ready when the run that a request is in is there: its samples are the request's until that is closed. It calls ready at once
// where the request is in no run.
func (a *readAhead) wait(r *request, ready func()) {
	i := slices.IndexFunc(a.runs, func(n *batchRun) bool {
		return n.at.Epoch.Number() == r.at.Epoch.Number() && n.at.First <= r.at.First && r.at.First < n.end
	})
	if i < 0 {
		ready()
		return
	}
	n := a.runs[i]
	r.run = n
	n.refs++
	n.came[r.at.First] = true
	a.drop(func(n *batchRun) bool { return uint64(len(n.came))*n.at.BatchSize >= n.end-n.at.First })
	if n.arrived {
		ready()
		return
	}
	n.waiting = append(n.waiting, ready)
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
			if !r.run.samples[x] {
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
		r.ahead.unref(r.run)
	}
	r.run, r.took = nil, 0
}

// drop gives up some runs of a rank. Their memory goes back when nothing shows it any more.
func (a *readAhead) drop(which func(*batchRun) bool) {
	a.runs = slices.DeleteFunc(a.runs, func(n *batchRun) bool {
		if !which(n) {
			return false
		}
		if n.gone = true; n.refs == 0 {
			a.free(n)
		}
		return true
	})
}

// unref ends the use of a run.
func (a *readAhead) unref(n *batchRun) {
	if n.refs--; n.refs == 0 && n.gone {
		a.free(n)
	}
}

func (a *readAhead) free(n *batchRun) {
	a.gateway.aheadHeld -= n.cost
	a.gateway.memory.give(n.cost)
}

// giveUp gives up runs that nothing shows until n bytes are free, and returns the bytes.
func (g *gateway) giveUp(n int64) (bytes int64) {
	for _, a := range g.aheads {
		a.runs = slices.DeleteFunc(a.runs, func(x *batchRun) bool {
			goes := x.refs == 0 && bytes < n
			if goes {
				bytes += x.cost
			}
			return goes
		})
	}
	g.aheadHeld -= bytes
	return bytes
}

// plannedRun is a run that is being worked out.
type plannedRun struct {
	gateway *gateway
	at      shuffle.Cursor
	chunks  map[int32]*aheadQuestion // that a chunk belongs to; nil: nobody is asked
	asked   []*aheadQuestion
}

// aheadQuestion is what one owner is asked for.
type aheadQuestion struct {
	owner   *gateway
	samples []uint64
	bytes   int64
	chunks  int // that the rank has not begun with
}

// far works out what other gateways own of some batches, of which the first one begins at a position, and returns where the last of them
// ends: batches that would make a question too large are left out, but for the first one.
func (p *plannedRun) far(first, batches uint64) (end uint64) {
	var samples []uint64
	end = first
	for n := range batches {
		var ok bool
		if samples, ok = p.at.Later(samples[:0], (first-p.at.First)/p.at.BatchSize+n); !ok {
			break
		}
		before := make([]aheadQuestion, len(p.asked))
		for i, q := range p.asked {
			before[i] = *q
		}
		for _, x := range samples {
			p.add(x)
		}
		if n > 0 && p.tooMuch() {
			for i := range before {
				*p.asked[i] = before[i]
			}
			p.asked = p.asked[:len(before)]
			break
		}
		end += p.at.BatchSize
	}
	return end
}

// add adds a sample if another gateway is to be asked for it.
func (p *plannedRun) add(sample uint64) {
	g := p.gateway
	chunk := g.data.chunkOf(sample)
	q, known := p.chunks[chunk]
	if !known {
		q = p.questionOf(chunk)
		p.chunks[chunk] = q
	}
	if q != nil {
		q.bytes, q.samples = q.bytes+g.data.bytesOf(chunk, 1), append(q.samples, sample)
	}
}

// questionOf returns the question that a chunk belongs to, nil if nobody is asked for it.
func (p *plannedRun) questionOf(chunk int32) *aheadQuestion {
	g := p.gateway
	if !g.elsewhere(chunk) {
		return nil
	}
	owner := g.cluster.owner(chunk)
	i := slices.IndexFunc(p.asked, func(q *aheadQuestion) bool { return q.owner == owner })
	if i < 0 {
		i = len(p.asked)
		p.asked = append(p.asked, &aheadQuestion{owner: owner})
	}
	if span, ok := p.at.Epoch.Next(uint64(chunk), p.at.First); !ok || span.From >= p.at.End {
		p.asked[i].chunks++
	}
	return p.asked[i]
}

// tooMuch reports whether some owner would be asked for more than one question may bring.
func (p *plannedRun) tooMuch() bool {
	chunks := aheadChunksShort
	if p.gateway.fits {
		chunks = aheadChunks
	}
	var all int64
	for _, q := range p.asked {
		samples := int64(len(q.samples))
		if q.bytes+samples*sampleCost > aheadBytes || samples > aheadRanges || q.chunks > chunks {
			return true
		}
		all += q.bytes
	}
	return chunkcache.Cost(all) > p.gateway.set.CacheSize/aheadRun
}
