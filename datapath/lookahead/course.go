package lookahead

import (
	"math"
	"slices"

	"github.com/millrace-data/millrace/shuffle"
)

// RunBatches is how many batches one run covers at most. An owner hears of a rank when it is asked for
// the next run: after so many batches it still takes the rank for the same reader.
const RunBatches = 8

// Course says which next batches of a rank are read ahead, and when: run by run, each from where the
// one before it ends, so no batch is in two. While the rank consumes one run, the next one is on
// its way. T is what a run has brought. The zero Course stands nowhere. It is for one goroutine at a
// time.
type Course[T any] struct {
	at     shuffle.Cursor // the foremost request: a client with several under way sends them in any order
	begins uint64         // first position of the last run
	due    uint64         // half-way from the run before to the last one: there the next run is due
	next   uint64         // first position of the next run; none begins past the end of the epoch
	number int            // runs so far in this epoch
	runs   []*Run[T]      // batches may still come for each of them
}

// Run is what some batches of a rank that follow each other need from other gateways, read as one batch.
type Run[T any] struct {
	At   shuffle.Cursor // where the rank stood when the run began, as owners are told
	Came T

	first, end uint64 // positions of its first batch, and behind its last one
	left       uint8  // a bit for each batch that has not come for it
}

// Come notes a request. It drops the runs that the rank has passed, and returns them.
func (c *Course[T]) Come(at shuffle.Cursor) (passed []*Run[T]) {
	passed = c.Drop(func(r *Run[T]) bool {
		place := r.At
		place.First = r.first
		return Passed(at, place)
	})
	if c.at.Epoch == nil || at.Epoch.Number() > c.at.Epoch.Number() {
		c.next, c.number = 0, 0
	} else if at.Epoch.Number() < c.at.Epoch.Number() || at.First <= c.at.First {
		return passed
	}
	c.at = at
	if c.next <= at.First { // the rank has overtaken the runs: this batch is read by itself
		c.begins, c.due, c.next = at.First, at.First, at.First+at.BatchSize
	}
	return passed
}

// At returns the foremost request, of no epoch before the first one.
func (c *Course[T]) At() shuffle.Cursor { return c.at }

// Next begins the next run if that is due, nil otherwise. The run covers few batches at first, since
// the rank waits for them, and few in the end, since nothing is read ahead while the rank consumes the
// last ones.
func (c *Course[T]) Next() *Run[T] {
	if c.at.Epoch == nil || c.at.First < c.due || c.next >= c.at.Plan.Samples() {
		return nil
	}
	left := (c.at.Plan.Samples() - c.next + c.at.BatchSize - 1) / c.at.BatchSize
	batches := min(2<<min(c.number, 8), RunBatches, max((left+1)/2, 2), left)
	r := &Run[T]{
		At: c.at, first: c.next, end: c.next + batches*c.at.BatchSize, left: 1<<batches - 1,
	}
	c.begins, c.due, c.next, c.number = r.first, c.begins+(r.first-c.begins)/2, r.end, c.number+1
	c.runs = append(c.runs, r)
	return r
}

// Cut ends a run before its time: the next one goes on from there, unless it has begun already.
// Batches that were asked for meanwhile are in no run. A run that is cut to nothing is the last one of
// its epoch.
func (c *Course[T]) Cut(r *Run[T], end uint64) {
	if end >= r.end {
		return
	}
	r.end, r.left = end, r.left&(1<<((end-r.first)/r.At.BatchSize)-1)
	switch {
	case c.begins != r.first || c.at.Epoch.Number() != r.At.Epoch.Number():
	case end == r.first:
		c.next = math.MaxUint64
	default:
		c.next = max(end, c.at.First+c.at.BatchSize)
	}
}

// Find returns the run that a batch is in, nil if it is in none.
func (c *Course[T]) Find(at shuffle.Cursor) *Run[T] {
	for _, r := range c.runs {
		if r.At.Epoch.Number() == at.Epoch.Number() && r.first <= at.First && at.First < r.end {
			return r
		}
	}
	return nil
}

// Had notes that a batch needs nothing more of its run. It drops the runs for which no batch is left to come, and returns them.
func (c *Course[T]) Had(at shuffle.Cursor) (over []*Run[T]) {
	if r := c.Find(at); r != nil {
		r.left &^= 1 << ((at.First - r.first) / r.At.BatchSize)
	}
	return c.Drop(func(r *Run[T]) bool { return r.left == 0 })
}

// Drop drops some runs: no batch comes for them any more. It returns them.
func (c *Course[T]) Drop(which func(*Run[T]) bool) (dropped []*Run[T]) {
	c.runs = slices.DeleteFunc(c.runs, func(r *Run[T]) bool {
		goes := which(r)
		if goes {
			dropped = append(dropped, r)
		}
		return goes
	})
	return dropped
}

// Runs returns the runs that batches may still come for.
func (c *Course[T]) Runs() []*Run[T] { return c.runs }

// farApart is how many batches two requests of one rank may lie apart: a client that reads over
// several connections, some of them slow, asks for batches in any order.
const farApart = 32

// Near reports whether a request comes from the rank that stands here, and not from another one, or
// one that reads the same elsewhere.
func (c *Course[T]) Near(at shuffle.Cursor) bool {
	return c.at.Rank == at.Rank && c.at.WorldSize == at.WorldSize && c.at.BatchSize == at.BatchSize && c.at.Plan.Params() == at.Plan.Params() &&
		!Passed(c.at, at) && !Passed(at, c.at)
}

// Passed reports whether a reader has left a place of its plan so far behind that it does not come
// back for the samples there.
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
