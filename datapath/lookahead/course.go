package lookahead

import (
	"math"
	"slices"

	"github.com/millrace-data/millrace/shuffle"
)

// RunBatches is the maximum number of batches in one run. An owner learns a rank's position only
// from the query for the next run. After at most this many batches, the owner still matches the
// rank to the same reader.
const RunBatches = 8

// Course decides which of a rank's next batches are read ahead, and when. It proceeds in runs, each
// starting at the end of the previous one, so no batch is in two runs. While the rank consumes one
// run, the next one is being read. T is the result of a run. The zero Course has no position. It is
// not safe for concurrent use.
type Course[T any] struct {
	at     shuffle.Cursor // the request furthest ahead: a client with several open requests may send them out of order
	begins uint64         // first position of the last run
	due    uint64         // position at which the next run is due: halfway between the starts of the last two runs
	next   uint64         // first position of the next run; none begins past the end of the epoch
	number int            // number of runs so far in this epoch
	runs   []*Run[T]      // runs that batches may still need
}

// Run is the samples that some consecutive batches of a rank need from other gateways, read as one
// batch.
type Run[T any] struct {
	At   shuffle.Cursor // the rank's position when the run began, which is sent to owners
	Came T

	first, end uint64 // position where its first batch starts, and position where its last batch ends
	left       uint8  // one bit for each batch that has not used the run yet
}

// Come records a request. It drops the runs that the rank has passed, and returns them.
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
	if c.next <= at.First { // the rank has overtaken the runs, so this batch is read separately
		c.begins, c.due, c.next = at.First, at.First, at.First+at.BatchSize
	}
	return passed
}

// At returns the request furthest ahead; its Epoch is nil before the first request.
func (c *Course[T]) At() shuffle.Cursor { return c.at }

// Next begins the next run if one is due; otherwise it returns nil. The first runs of an epoch are
// short, since the rank waits for them. The last runs are short too, since nothing is read ahead
// while the rank consumes the last one.
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

// Cut shortens a run. The next run starts at the new end, unless it has begun already. Batches that
// were requested meanwhile are in no run. If a run is cut to nothing, no further run begins in its
// epoch.
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

// Find returns the run that contains a batch, or nil if none does.
func (c *Course[T]) Find(at shuffle.Cursor) *Run[T] {
	for _, r := range c.runs {
		if r.At.Epoch.Number() == at.Epoch.Number() && r.first <= at.First && at.First < r.end {
			return r
		}
	}
	return nil
}

// Had records that a batch no longer needs its run. It drops the runs that no batch needs any more,
// and returns them.
func (c *Course[T]) Had(at shuffle.Cursor) (over []*Run[T]) {
	if r := c.Find(at); r != nil {
		r.left &^= 1 << ((at.First - r.first) / r.At.BatchSize)
	}
	return c.Drop(func(r *Run[T]) bool { return r.left == 0 })
}

// Drop drops the runs for which the function returns true, and returns them.
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

// Runs returns the runs that batches may still need.
func (c *Course[T]) Runs() []*Run[T] { return c.runs }

// farApart is the maximum distance, in batches, of two requests of one rank. A client with several
// connections, some of them slow, requests batches in any order.
const farApart = 32

// Near reports whether a request comes from this rank. It returns false for another rank, and for a
// reader of the same plan at another position.
func (c *Course[T]) Near(at shuffle.Cursor) bool {
	return c.at.Rank == at.Rank && c.at.WorldSize == at.WorldSize && c.at.BatchSize == at.BatchSize && c.at.Plan.Params() == at.Plan.Params() &&
		!Passed(c.at, at) && !Passed(at, c.at)
}

// Passed reports whether a reader is so far past a position of its plan that it no longer requests
// the samples there.
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
