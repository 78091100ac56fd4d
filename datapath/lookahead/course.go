package lookahead

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// RunBatches is how many batches one run of a Course covers at most. An owner hears of a rank when
// it is asked for the next run: after so many batches it still takes the rank for the same reader.
const RunBatches = 8

// Course says which next batches of a rank are read ahead, and when: run by run, each from where the
// one before it ends, so no batch is in two. While the rank consumes one run, the next one is on
// its way. The zero Course stands nowhere. It is for one goroutine at a time.
type Course struct {
	at     shuffle.Cursor // the foremost request: a client with several under way sends them in any order
	begins uint64         // first position of the last run
	due    uint64         // half-way from the run before to the last one: there the next run is due
	next   uint64         // first position of the next run; none begins past the end of the epoch
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
	if c.next <= at.First { // the rank has overtaken the runs: this batch is read by itself
		c.begins, c.due, c.next = at.First, at.First, at.First+at.BatchSize
	}
}

// At returns the foremost request, of no epoch before the first one.
func (c *Course) At() shuffle.Cursor { return c.at }

// Ready reports whether the next run is due.
func (c *Course) Ready() bool {
	return c.at.Epoch != nil && c.at.First >= c.due && c.next < c.at.Plan.Samples()
}

// Run begins the next run. It returns the position of its first batch, and how many it covers: few
// at first, since the rank waits for them, and few in the end, since nothing is read ahead while the
// rank consumes the last ones.
func (c *Course) Run() (first, batches uint64) {
	left := (c.at.Plan.Samples() - c.next + c.at.BatchSize - 1) / c.at.BatchSize
	batches = min(2<<min(c.runs, 8), RunBatches, max((left+1)/2, 2), left)
	first = c.next
	c.begins, c.due, c.next, c.runs = first, c.begins+(first-c.begins)/2, first+batches*c.at.BatchSize, c.runs+1
	return first, batches
}

// Cut ends the run that begins at a position before its time: the next run goes on from there, unless
// it has begun already. Batches that were asked for meanwhile are in no run. A run that is cut to
// nothing is the last one of its epoch.
func (c *Course) Cut(first, end uint64) {
	switch {
	case c.begins != first:
	case end == first:
		c.next = math.MaxUint64
	default:
		c.next = max(end, c.at.First+c.at.BatchSize)
	}
}

// Heard returns where an owner is told that the rank stands when the next run is due. Other runs may
// have kept the rank from asking for long: from one run to the next it goes on by no more batches
// than an owner takes for the same reader.
func (c *Course) Heard() uint64 {
	if c.at.First-c.due > RunBatches*c.at.BatchSize {
		return c.at.First
	}
	return c.due / c.at.BatchSize * c.at.BatchSize
}

// farApart is how many batches two requests of one rank may lie apart: a client that reads over several connections, some of them
// slow, asks for batches in any order.
const farApart = 32

// Near reports whether a request comes from the rank that stands here, and not from one that reads the same elsewhere.
func (c *Course) Near(at shuffle.Cursor) bool { return !Passed(c.at, at) && !Passed(at, c.at) }

// Passed reports whether a reader has left a place of its plan so far behind that it does not come back for the samples there.
func Passed(reader, place shuffle.Cursor) bool {
	samples, behind := int64(place.Plan.Samples()), int64(reader.First)-int64(place.First)
	switch here, there := reader.Epoch.Number(), place.Epoch.Number(); {
	case here == there+1:
		behind += samples
	case here != there:
		return here > there
	}
	return behind > farApart*int64(place.BatchSize)
}
