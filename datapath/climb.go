package datapath

import (
	"sync/atomic"
	"time"
)

// climb finds how many concurrent store reads give the highest throughput. It tries a quarter more
// reads for a round, or a fifth fewer, and keeps that limit if it pays. If neither pays, it keeps
// the limit for some rounds, for longer each time. A read that the store throttles lowers the limit
// by one.
type climb struct {
	least, most int
	came        *atomic.Int64 // bytes received from the store so far

	from  int     // limit before the trial; 0: no trial is running
	base  float64 // bytes per second at the limit before the trial
	fewer bool    // the next trial is with fewer reads
	pause int     // rounds without a trial after the next trial that fails
	rest  int     // rounds left until the next trial
}

const (
	leastPlaces = 4   // fewer streams rarely use the full bandwidth of a link
	mostPlaces  = 160 // streams of 80 MB/s fill a link of 100 Gbit/s; stores accept as many connections
	// If each stream kept its rate, n percent more streams would deliver n percent more bytes.
	// A larger limit is kept if it achieves at least 0.4 of that increase, and a smaller limit
	// if it costs at most 0.15 of that decrease. The gap between the two keeps the limit stable
	// although rates vary.
	growPays, shrinkCosts = 0.4, 0.15
	longestRest           = 32 // in rounds; a trial costs at most a fifth of the throughput for one round
)

// next returns the limit for the next round. The last round was at limit, with a throughput of rate
// bytes per second.
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
		c.base, c.pause = max(c.base, rate), 0 // compare with the best rate: otherwise many small losses add up to a large one
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

// failed records that a trial did not pay, and reverses the direction of the next one.
func (c *climb) failed() {
	c.rest, c.pause, c.fewer = c.pause, min(2*c.pause+1, longestRest), !c.fewer
}

// less returns the new limit after the store throttled a read or a read timed out.
func (c *climb) less(limit int) int {
	c.from = 0
	return max(limit-1, min(c.least, limit))
}

// A round ends once all places have been in use for roundTime in total, and roundReads reads per
// place have ended.
const (
	roundTime  = time.Second
	roundReads = 2
)

// round is the measurement since the limit was last set, taken while all places of the gate are in
// use.
type round struct {
	full   bool          // all places are in use now
	at     time.Time     // time of the last measurement
	from   int64         // bytes received until the last measurement
	spent  time.Duration // time with all places in use
	bytes  int64         // bytes received in that time
	reads  int           // reads that ended in that time
	wanted bool          // a read found no free place
	paced  bool          // a store delayed reads, so the throughput does not show the effect of the limit
}

// note records the bytes received since the last call. The caller holds mu, and calls it after each
// change.
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

// ended gives the place of a finished read to the next waiter, and ends the round if it has
// measured enough. The caller holds mu.
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

// resize sets the limit and begins a round. It does not interrupt reads. The caller holds mu.
func (g *gate) resize(limit int) {
	g.limit, g.round = limit, round{paced: g.paced > 0}
	g.admit()
	if g.below != nil {
		g.below.mu.Lock()
		g.below.resize(max(limit-1, 1))
		g.below.mu.Unlock()
	}
}

// hold records that a store begins or stops to delay a read because of the store's own limit.
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

// slower lowers the limit after the store throttled a read or a read timed out.
func (g *gate) slower() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.climb != nil {
		g.resize(g.climb.less(g.limit))
	}
}
