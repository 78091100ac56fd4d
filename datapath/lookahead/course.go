package lookahead

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// RunBatches is how many batches one run of a Course covers at most. An owner, who hears of a rank when it is asked for the
// next run, still takes it for the same reader then.
const RunBatches = 8

// Course is where a rank stands, and which samples of its next batches are fetched before it comes for them: run by run, each from where
// the one before it ends, so no sample is in two. While the rank consumes one run, the next one is on its way. The zero Course
// stands nowhere. It is for one goroutine at a time.
type Course struct {
	at     shuffle.Cursor // the foremost request: those of a client with several under way come in any order
	begins uint64         // first position of the batch in which the last run begins
	due    uint64         // half-way from the run before to that one: once the rank is there, the next run is due
	next   uint64         // first position of the batch in which the next one begins; none does past the end
	skip   int            // samples of that batch that are in the last run
	runs   int            // so far in this epoch
}

// Come notes a request.
func (c *Course) Come(at shuffle.Cursor) {
	if c.at.Epoch == nil || at.Epoch.Number() > c.at.Epoch.Number() {
		c.next, c.runs = 0, 0
	} else if at.Epoch.Number() < c.at.Epoch.Number() || at.First <= c.at.First {
		return
	}
	c.at = at
	if c.next <= at.First { // it has overtaken what was fetched, and asks for this batch itself
		c.begins, c.due, c.next, c.skip = at.First, at.First, at.First+at.BatchSize, 0
	}
}

// At returns the foremost request, of no epoch before the first one.
func (c *Course) At() shuffle.Cursor { return c.at }

// Take goes on to where another course is that was a copy of this one and has run since, while requests came here.
func (c *Course) Take(run Course) {
	c.begins, c.due, c.next, c.skip, c.runs = run.begins, run.due, run.next, run.skip, run.runs
}

// Awaits reports whether a run that is being worked out may hold what a request is for.
func (c *Course) Awaits(at shuffle.Cursor) bool {
	return at.Epoch.Number() > c.at.Epoch.Number() || at.Epoch.Number() == c.at.Epoch.Number() && at.First >= c.next
}

// Ready reports whether the next run is to be fetched.
func (c *Course) Ready() bool {
	return c.at.Epoch != nil && c.at.First >= c.due && c.next < c.at.Plan.Samples()
}

// batches is how many the next run may cover: few at first, since the rank waits for them, and few in the end, since nothing is
// fetched while it consumes the last ones.
func (c *Course) batches() int {
	left := (c.at.Plan.Samples() - c.next + c.at.BatchSize - 1) / c.at.BatchSize
	return min(2<<min(c.runs, 8), RunBatches, max(int(left+1)/2, 2))
}

// Run goes on to the next run, and hands its samples out with the first position of their batch, until one is refused or
// the run is long enough. What is refused is for the next one.
func (c *Course) Run(add func(sample, first uint64) bool) {
	begins, batches := c.next, c.batches()
	defer func() { c.begins, c.due, c.runs = begins, c.begins+(begins-c.begins)/2, c.runs+1 }()
	var samples []uint64
	for range batches {
		var ok bool
		if samples, ok = c.at.Later(samples[:0], (c.next-c.at.First)/c.at.BatchSize); !ok {
			c.next, c.skip = math.MaxUint64, 0
			return
		}
		for ; c.skip < len(samples); c.skip++ {
			if !add(samples[c.skip], c.next) {
				return
			}
		}
		c.next, c.skip = c.next+c.at.BatchSize, 0
	}
}

// Heard returns where an owner is told that the rank stands when the next run is due. Other runs may have kept it from asking for long:
// from one of them to the next it goes on by no more batches than an owner takes for the same reader.
func (c *Course) Heard() uint64 {
	if c.at.First-c.due > RunBatches*c.at.BatchSize {
		return c.at.First
	}
	return c.due / c.at.BatchSize * c.at.BatchSize
}

// farApart is how many batches two requests of one rank may lie apart: those of a client that reads over several connections, some of them slow.
const farApart = 32

// Near reports whether a request comes from the rank that stands here, and not from one that reads the same elsewhere.
func (c *Course) Near(at shuffle.Cursor) bool {
	d := apart(c.at, at)
	return max(d, -d) <= farApart*int64(at.BatchSize)
}

// LeftBy reports whether a reader is so far ahead that the rank cannot be one of its: it reads from another gateway now.
func (c *Course) LeftBy(at shuffle.Cursor) bool {
	return apart(c.at, at) > farApart*int64(c.at.BatchSize)
}

// Behind reports whether nobody comes any more for what ends with the batch that begins at a position.
func (c *Course) Behind(epoch uint64, last uint64) bool {
	back := int64(c.at.First) - int64(last)
	if here := c.at.Epoch.Number(); here != epoch {
		back += distance(epoch, here, c.at.Plan.Samples())
	}
	return back > farApart*int64(c.at.BatchSize)
}

// apart is how many samples lie between two positions of a plan, below 0 where the second one is first.
func apart(from, to shuffle.Cursor) int64 {
	return int64(to.First) - int64(from.First) + distance(from.Epoch.Number(), to.Epoch.Number(), from.Plan.Samples())
}

// distance is how many samples lie between the beginnings of two epochs; those farther apart than one are endlessly far.
func distance(from, to, samples uint64) int64 {
	switch {
	case from == to:
		return 0
	case from+1 == to:
		return int64(samples)
	case to+1 == from:
		return -int64(samples)
	case from < to:
		return math.MaxInt64 / 2
	}
	return math.MinInt64 / 2
}
