package datapath

import (
	"sync/atomic"
	"time"
)

// climb finds how many store reads side by side pay. It tries a quarter more of them for a round, or a fifth fewer, and
// stays there if that pays. If neither does, the limit rests, for longer each time. After a read that the store throttled
// the limit is one less.
type climb struct {
	least, most int
	came        *atomic.Int64 // bytes from the store so far

	from  int     // the limit before the one on trial; 0: none is
	base  float64 // bytes per second at that limit
	fewer bool    // the next trial is of fewer reads
	pause int     // rounds to rest after the next trial that fails
	rest  int     // rounds left to rest
}

const (
	leastPlaces = 4   // fewer streams than this hardly fill any line
	mostPlaces  = 160 // streams of 80 MB/s fill a line of 100 Gbit/s, and a store's connections serve as many and others
	// If each stream kept its rate, n percent more of them would bring n percent more bytes. A step up stays if it brings
	// 0.4 of that, a step down if it costs no more than 0.15: between the two the limit stays though rates vary.
	growPays, shrinkCosts = 0.4, 0.15
	longestRest           = 32 // rounds: a trial costs a fifth of the rate for one of them at most
)

// next returns the limit for the next round, after one at a limit that brought rate bytes per second.
func (c *climb) next(limit int, rate float64) int {
	switch from := c.from; {
	case from > 0:
		c.from = 0
		part := growPays
		if limit < from {
			part = shrinkCosts
		}
		if rate < c.base*(1+part*float64(limit-from)/float64(from)) {
			c.failed()
			return from
		}
		c.base, c.pause = max(c.base, rate), 0 // the best one: many small losses are a large one
	case c.rest > 0:
		c.rest--
		return limit
	default:
		c.base = rate
	}
	next := min(limit+max(limit/4, 1), c.most)
	if c.fewer {
		next = max(limit-max(limit/5, 1), c.least)
	}
	if next == limit {
		c.failed()
		return limit
	}
	c.from = limit
	return next
}

// failed notes that a step did not pay, and lets the next one go the other way.
func (c *climb) failed() {
	c.rest, c.pause, c.fewer = c.pause, min(2*c.pause+1, longestRest), !c.fewer
}

// less returns the limit after a read that the store throttled, or was too slow for.
func (c *climb) less(limit int) int {
	c.from = 0
	return max(limit-1, min(c.least, limit))
}

// A round takes as long as all places are taken for a second in sum, and each of them has made two reads.
const (
	roundTime  = time.Second
	roundReads = 2
)

// round is what was measured since the limit was set, while all places of the gate were taken.
type round struct {
	full   bool          // all places are taken now
	at     time.Time     // of the last measurement
	from   int64         // bytes that had come by then
	spent  time.Duration // with all places taken
	bytes  int64         // that came in this time
	reads  int           // that ended in it
	wanted bool          // a read found no place
	paced  bool          // a store held reads back: the bytes say nothing of what places bring
}

// note adds what came since the last call. The caller holds mu, and calls it after each change.
func (g *gate) note() {
	if g.climb == nil {
		return
	}
	r, now, came := &g.round, time.Now(), g.climb.came.Load()
	if r.full {
		r.spent += now.Sub(r.at)
		r.bytes += came - r.from
	}
	r.full, r.at, r.from = g.demand+g.ahead >= g.limit, now, came
	r.wanted = r.wanted || len(g.queue)+len(g.later) > 0
}

// ended gives the place of a read to the next one, and ends the round if it has seen enough. The caller holds mu.
func (g *gate) ended() {
	if g.round.full {
		g.round.reads++
	}
	g.admit()
	r := &g.round
	if r.spent < roundTime || r.reads < roundReads*g.limit {
		return
	}
	limit := g.limit
	if r.wanted && !r.paced {
		limit = g.climb.next(limit, float64(r.bytes)/r.spent.Seconds())
	}
	g.resize(limit)
}

// resize sets the limit, and begins a round. Reads under way go on. The caller holds mu.
func (g *gate) resize(limit int) {
	g.limit, g.round = limit, round{paced: g.paced > 0}
	g.admit()
	if g.below != nil {
		g.below.mu.Lock()
		g.below.resize(max(limit-1, 1))
		g.below.mu.Unlock()
	}
}

// hold notes that a store begins to hold a read back, for the sake of a limit of its own, or has ended with it.
func (g *gate) hold(begins bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.round.paced = true
	if begins {
		g.paced++
	} else {
		g.paced--
	}
}

// slower takes a place away after a read that the store throttled, or was too slow for.
func (g *gate) slower() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.climb != nil {
		g.resize(g.climb.less(g.limit))
	}
}
