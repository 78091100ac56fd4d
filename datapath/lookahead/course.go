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
// time, and so are its runs, but for Plan and Stands.
type Course[T any] struct {
	at     shuffle.Cursor // the foremost request: a client with several under way sends them in any order
	begins uint64         // first position of the last run
	due    uint64         // half-way from the run before to the last one: there the next run is due
	next   uint64         // first position of the next run; none begins past the end of the epoch
	number int            // runs so far in this epoch
	runs   []*Run[T]      // a batch may still come for each of them
}

// Run is what some batches of a rank that follow each other need from other gateways, read as one
// batch. Its course holds it while a batch may come for it, its read until all has come, and each
// batch that has taken it until that is closed. Then its memory goes back.
type Run[T any] struct {
	At   shuffle.Cursor // where the rank stood when the run began, as owners are told
	Came T
	Cost int64  // bytes of memory that it has taken
	Free func() // gives them back; nil: it has taken none

	first, end uint64 // positions of its first batch, and behind its last one
	left       uint8  // a bit for each batch that has not come for it
	holders    int
}

// Come notes a request, and gives up the runs that the rank has passed.
func (c *Course[T]) Come(at shuffle.Cursor) {
	c.drop(func(r *Run[T]) bool {
		place := r.At
		place.First = r.first
		return Passed(at, place)
	})
	if c.at.Epoch == nil || at.Epoch.Number() > c.at.Epoch.Number() {
		c.next, c.number = 0, 0
	} else if at.Epoch.Number() < c.at.Epoch.Number() || at.First <= c.at.First {
		return
	}
	c.at = at
	if c.next <= at.First { // the rank has overtaken the runs: this batch is read by itself
		c.begins, c.due, c.next = at.First, at.First, at.First+at.BatchSize
	}
}

// At returns the foremost request, of no epoch before the first one.
func (c *Course[T]) At() shuffle.Cursor { return c.at }

// Next begins the next run if that is due, nil otherwise. The run covers few batches at first, since
// the rank waits for them, and few in the end, since nothing is read ahead while the rank consumes the
// last ones. Its read ends with Release.
func (c *Course[T]) Next() *Run[T] {
	if c.at.Epoch == nil || c.at.First < c.due || c.next >= c.at.Plan.Samples() {
		return nil
	}
	left := (c.at.Plan.Samples() - c.next + c.at.BatchSize - 1) / c.at.BatchSize
	batches := min(2<<min(c.number, 8), RunBatches, max((left+1)/2, 2), left)
	r := &Run[T]{
		At: c.at, first: c.next, end: c.next + batches*c.at.BatchSize, left: 1<<batches - 1, holders: 2,
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

// Take returns the run that a batch is in, nil if it is in none. The batch holds it until Release.
func (c *Course[T]) Take(at shuffle.Cursor) *Run[T] {
	i := slices.IndexFunc(c.runs, func(r *Run[T]) bool {
		return r.At.Epoch.Number() == at.Epoch.Number() && r.first <= at.First && at.First < r.end
	})
	if i < 0 {
		return nil
	}
	r := c.runs[i]
	r.holders++
	r.left &^= 1 << ((at.First - r.first) / r.At.BatchSize)
	c.drop(func(r *Run[T]) bool { return r.left == 0 })
	return r
}

// Release ends one hold of a run.
func (r *Run[T]) Release() {
	if r.holders--; r.holders == 0 && r.Free != nil {
		r.Free()
	}
}

// drop gives up some runs: no batch comes for them any more.
func (c *Course[T]) drop(which func(*Run[T]) bool) {
	c.runs = slices.DeleteFunc(c.runs, func(r *Run[T]) bool {
		goes := which(r)
		if goes {
			r.Release()
		}
		return goes
	})
}

// GiveUp gives up all runs.
func (c *Course[T]) GiveUp() { c.drop(func(*Run[T]) bool { return true }) }

// Reclaim gives up runs that nothing else holds until n bytes are free, and returns the bytes.
func (c *Course[T]) Reclaim(n int64) (bytes int64) {
	c.drop(func(r *Run[T]) bool {
		goes := r.holders == 1 && bytes < n
		if goes {
			bytes += r.Cost
		}
		return goes
	})
	return bytes
}

// Idle returns the bytes that Reclaim could give back.
func (c *Course[T]) Idle() (n int64) {
	for _, r := range c.runs {
		if r.holders == 1 {
			n += r.Cost
		}
	}
	return n
}

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
