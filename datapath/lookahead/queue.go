package lookahead

import (
	"container/heap"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	aheadChunks = 16  // needed soon: so many after those needed now, or to the end of the next window if that is more
	foresight   = 64  // spans worked out beyond those: to begin with the spans somewhere is most of the cost
	nearNeeds   = 32  // how far behind a need in its reader's queue With looks
	oneHold     = 256 // chunks that one look at the queue may find in memory: some 30 us
)

// Need is a chunk that a reader comes for soon and that is missing.
type Need struct {
	Place
	Due     time.Duration // until the reader stalls for want of it
	Samples uint64        // of the chunk, that the reader takes in this use
	First   bool          // the reader waits for it, or for others, with its first batch
	Plan    *shuffle.Plan
	reader  *reader
}

// use is one span in which a reader needs a chunk.
type use struct {
	shuffle.Span
	start uint64 // where it begins, counted on from the reader's epoch
	cost  int64  // of the chunk in memory
}

func (u *use) end() uint64 { return u.start + u.To - u.From }

// left is how many of the chunk's samples are delivered from a position on.
func (u *use) left(at uint64) uint64 {
	if u.start >= at {
		return u.Samples
	}
	return uint64(math.Ceil(float64(u.Samples) * float64(u.end()-min(at, u.end())) / float64(u.To-u.From)))
}

// ahead is what one reader needs now and soon, in order of need.
type ahead struct {
	uses   []use
	epoch  uint64 // that the uses begin in
	soon   int    // so many of the uses are needed now or soon
	found  int    // of these, so many were found in memory: the cursor
	tried  int    // and so many were looked at in this pass over the queue
	ends   uint64 // from this position on, a chunk is not needed any more
	begins uint64 // from this position on, another one is needed
	looked bool
	place  int           // in the heap
	due    time.Duration // of the first use that was not looked at; Never: there is none
}

// stale reports whether the reader has moved so far that it needs other chunks.
func (x *reader) stale() bool {
	return !x.looked || x.epoch != x.at.Epoch.Number() || x.at.First >= x.ends || x.at.End > x.begins
}

// look works out what a reader needs now and soon, as far as the memory may hold it.
func (r *Readers) look(x *reader) {
	if x.looked && x.epoch == x.at.Epoch.Number() {
		x.trim()
	} else {
		x.epoch, x.uses, x.found, x.tried = x.at.Epoch.Number(), x.uses[:0], 0, 0
	}
	x.looked = true
	if !x.reckon(r.cfg.Budget) {
		r.foresee(x)
		x.reckon(r.cfg.Budget)
	}
	x.found, x.tried = min(x.found, x.soon), min(x.tried, x.soon)
}

// trim forgets the uses that have ended.
func (x *reader) trim() {
	kept, found, tried := x.uses[:0], 0, 0
	for i, u := range x.uses {
		if u.end() <= x.at.First {
			continue
		}
		kept = append(kept, u)
		if i < x.found {
			found++
		}
		if i < x.tried {
			tried++
		}
	}
	x.uses, x.found, x.tried = kept, found, tried
}

// reckon counts the uses that are needed now or soon, and reports whether all of them are known.
func (x *reader) reckon(budget int64) bool {
	total, most := x.at.Plan.Samples(), x.reach()
	x.ends, x.begins = total, total
	for i := range x.uses {
		u := &x.uses[i]
		budget -= u.cost
		if u.start < x.at.End && u.start < total {
			x.ends = min(x.ends, u.end())
			continue
		}
		x.begins = min(x.begins, u.start)
		if most--; most < 0 || budget < 0 {
			x.soon = i
			return true
		}
	}
	x.soon = len(x.uses)
	return false
}

// reach is how many chunks after those needed now are needed soon.
func (x *reader) reach() int {
	if params := x.at.Plan.Params(); params.Shuffle == shuffle.Window {
		return max(aheadChunks, int(min(params.Window, 1<<20)))
	}
	return aheadChunks
}

// foresee adds to the uses what comes after them, somewhat more than is needed soon, in the next epoch only if that
// is needed.
func (r *Readers) foresee(x *reader) {
	most, more, budget := x.reach(), foresight, r.cfg.Budget
	known := len(x.uses)
	x.uses = slices.Grow(x.uses[:0], known+foresight)
	take := func(span shuffle.Span, start uint64) bool {
		if !r.mine(x.dataset, x.at.Plan, x.groups, span.Chunk) {
			return true
		}
		u := use{span, start, x.dataset.Cost(int(span.Chunk))}
		x.uses = append(x.uses, u)
		budget -= u.cost
		if start < x.at.End {
			return true
		}
		if most--; most < 0 || budget < 0 {
			more--
		}
		return more > 0
	}
	for span := range x.at.Epoch.Spans(x.at.First) {
		if !take(span, span.From) {
			return
		}
	}
	if more < foresight {
		return
	}
	if r.after(x) == nil {
		return
	}
	for span := range x.next.Spans(0) {
		if !take(span, x.at.Plan.Samples()+span.From) {
			return
		}
	}
}

// horizon returns how many samples ahead of the reader its needs reach.
func (x *reader) horizon() uint64 {
	switch {
	case x.soon < len(x.uses):
		return max(x.uses[x.soon].start, x.at.End) - x.at.First
	case len(x.uses) == 0:
		return x.at.End - x.at.First
	case x.next == nil:
		return x.at.Plan.Samples() - x.at.First
	}
	return 2*x.at.Plan.Samples() - x.at.First
}

// Missing yields the chunks that readers need soon and that are not in memory nor on their way, the
// one first that its reader would stall for first: so each fetcher that is free goes to the reader
// that needs it most. A chunk that the caller does not start to bring is passed over until the next
// call. There is one caller at a time.
func (r *Readers) Missing() iter.Seq[Need] {
	return func(yield func(Need) bool) {
		r.rewind()
		for {
			n, more := r.firstMissing()
			if !more || n.reader != nil && !yield(n) {
				return
			}
		}
	}
}

// rewind begins a pass over the queue: it goes back to what was missing before.
func (r *Readers) rewind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.looked {
		x.tried = x.found
	}
	if r.lost.Swap(false) {
		r.looked = append(r.looked[:0], r.queue...)
		for _, x := range r.looked {
			x.found, x.tried = 0, 0
		}
	}
	for _, x := range r.looked {
		r.reorder(x)
	}
	clear(r.looked)
	r.looked = r.looked[:0]
}

// firstMissing returns the first need of the queue, which counts as looked at from then on. If it finds
// many chunks in memory, it returns a need without a reader, so that the lock is not held for long.
func (r *Readers) firstMissing() (n Need, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for range oneHold {
		if len(r.queue) == 0 || r.queue[0].due == Never {
			return Need{}, false
		}
		x := r.queue[0]
		u := &x.uses[x.tried]
		there := u.end() <= x.at.First || x.dataset.Resident(int(u.Chunk))
		switch {
		case there && x.found == x.tried:
			x.found++
		case x.found == x.tried:
			r.looked = append(r.looked, x)
		}
		if !there {
			n = x.need(u)
		}
		x.tried++
		r.reorder(x)
		if !there {
			break
		}
	}
	return n, true
}

// With returns the need of another chunk, if it stands near a need in the queue of the same reader.
func (r *Readers) With(n Need, chunk int) (Need, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := n.reader
	near := x.uses[min(x.tried, x.soon):min(x.tried+nearNeeds, x.soon)]
	i := slices.IndexFunc(near, func(u use) bool { return int(u.Chunk) == chunk })
	if i < 0 {
		return Need{}, false
	}
	return x.need(&near[i]), true
}

func (x *reader) need(u *use) Need {
	return Need{
		Place:   Place{x.dataset, int(u.Chunk)},
		Due:     x.until(u),
		Samples: u.left(x.at.First),
		First:   !x.served && !x.passed,
		Plan:    x.at.Plan,
		reader:  x,
	}
}

// until returns how long the reader takes to come to a use.
func (x *reader) until(u *use) time.Duration {
	return takes(u.start-min(x.at.First, u.start), x.rate())
}

// reorder puts a reader where it belongs in the queue.
func (r *Readers) reorder(x *reader) {
	x.due = Never
	if x.tried < x.soon && !x.announced { // the one who announces a reader brings what it needs
		x.due = x.until(&x.uses[x.tried])
	}
	heap.Fix(&r.queue, x.place)
}

// Lost says that a chunk that readers may come for soon is not in memory any more, or has not come: the queue
// begins anew. Lost takes no lock.
func (r *Readers) Lost() { r.lost.Store(true) }

// queue is the readers, a heap: the one first that would stall first.
type queue []*reader

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].number < q[j].number
}
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push and Pop complete heap.Interface.
func (q *queue) Push(x any) {
	x.(*reader).place = len(*q)
	*q = append(*q, x.(*reader))
}

// Pop removes the last element.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}
