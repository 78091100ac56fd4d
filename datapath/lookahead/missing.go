package lookahead

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	aheadChunks = 16  // needed soon: so many after those needed now, or to the end of the next window if that is more
	foresight   = 64  // uses that are learned at a time, at the least
	oneHold     = 256 // cursors and chunks that Missing looks at before it lets go of the lock: 0.1 ms
)

// Need is a chunk that a reader comes for soon and that is missing.
type Need struct {
	Dataset Dataset
	Chunk   int
	Due     time.Duration // until the reader stalls for want of it
	Samples uint64        // of the chunk, that the reader takes in this use
	First   bool          // the reader waits for it, or for others, with its first batch
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
	uses     []use  // and some that come later
	epoch    uint64 // that the uses begin in
	soon     int    // so many of the uses are needed now or soon
	found    int    // of these, so many were found in memory: the cursor
	tried    int    // and so many were looked at in this pass over the queue
	complete bool   // the uses reach to the end of the next epoch: there are no more to learn
}

// look works out what a reader needs now and soon, as far as the memory may hold it. To begin with the spans somewhere
// is most of the cost, so look learns some more uses than it needs.
func (r *Readers) look(x *reader) {
	if x.epoch != x.at.Epoch.Number() {
		x.forgetUses()
	}
	for known := -1; !x.reckon(r.cfg.Budget) && !x.complete && known < len(x.uses); {
		known = len(x.uses)
		r.foresee(x, known+max(known/2, foresight))
	}
}

// forgetUses makes look begin anew: the reader comes for other chunks than before.
func (x *reader) forgetUses() {
	x.ahead = ahead{epoch: x.at.Epoch.Number(), uses: x.uses[:0]}
}

// reckon drops the uses that have ended, counts those that are needed now or soon, and reports whether all of these are known.
func (x *reader) reckon(budget int64) (all bool) {
	more, now := x.reach(), min(x.at.End, x.at.Plan.Samples())
	kept, found, tried := x.uses[:0], x.found, x.tried
	x.soon = 0
	for i, u := range x.uses {
		if u.end() <= x.at.First {
			if i < x.found {
				found--
			}
			if i < x.tried {
				tried--
			}
			continue
		}
		kept = append(kept, u)
		budget -= u.cost
		if u.start >= now {
			more--
			all = all || more < 0 || budget < 0
		}
		if !all {
			x.soon++
		}
	}
	x.uses, x.found, x.tried = kept, min(found, x.soon), min(tried, x.soon)
	return all
}

// reach is how many chunks after those needed now are needed soon.
func (x *reader) reach() int {
	if params := x.at.Plan.Params(); params.Shuffle == shuffle.Window {
		return max(aheadChunks, int(min(params.Window, 1<<20)))
	}
	return aheadChunks
}

// foresee learns the next uses of a reader, so many, in the next epoch only if that is needed.
func (r *Readers) foresee(x *reader, most int) {
	x.uses = slices.Grow(x.uses[:0], most)
	take := func(span shuffle.Span, start uint64) bool {
		if r.mine(x.dataset, x.at.Plan, x.groups, span.Chunk) {
			x.uses = append(x.uses, use{span, start, x.dataset.Cost(int(span.Chunk))})
		}
		return len(x.uses) < most
	}
	for span := range x.at.Epoch.Spans(x.at.First) {
		if !take(span, span.From) {
			return
		}
	}
	if r.after(x) == nil {
		return
	}
	for span := range x.next.Spans(0) {
		if !take(span, x.at.Plan.Samples()+span.From) {
			return
		}
	}
	x.complete = true
}

// horizon returns how many samples ahead of the reader its needs reach: all that it needs soon begin within these. Chunks of a window
// begin together, also where memory has no room for some of them.
func (x *reader) horizon() uint64 {
	switch {
	case x.soon < len(x.uses):
		reach := max(x.uses[x.soon].start, x.at.End)
		if x.soon > 0 {
			reach = max(reach, x.uses[x.soon-1].start+1)
		}
		return reach - x.at.First
	case len(x.uses) == 0:
		return x.at.End - x.at.First
	case x.next == nil:
		return x.at.Plan.Samples() - x.at.First
	}
	return 2*x.at.Plan.Samples() - x.at.First
}

// turn is when the reader of a cursor would stall.
type turn struct {
	reader *reader
	due    time.Duration
}

// Missing yields the chunks that readers need soon and that are not in memory nor on their way, the
// one first that its reader would stall for first: so each fetcher that is free goes to the reader
// that needs it most. A chunk that the caller does not start to bring is passed over until the next
// call. There is one caller at a time.
func (r *Readers) Missing() iter.Seq[Need] {
	return func(yield func(Need) bool) {
		turns := r.rewind()
		for {
			n, more := r.firstMissing(turns)
			if !more || n.reader != nil && !yield(n) {
				return
			}
		}
	}
}

// rewind takes all cursors back to what was missing before, or to the first use if a chunk was lost.
func (r *Readers) rewind() (turns []turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost.Swap(false)
	for _, x := range r.all {
		if lost {
			x.found = 0
		}
		x.tried = x.found
		turns = append(turns, turn{x, x.stall()})
	}
	return turns
}

// firstMissing returns the need that is due first, and takes its cursor on. If it finds many chunks in memory,
// it returns a need without a reader, so that the lock is not held for long.
func (r *Readers) firstMissing(turns []turn) (n Need, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for looked := 0; looked < oneHold; looked++ {
		first := &turn{due: Never}
		for i := range turns {
			if turns[i].due < first.due {
				first = &turns[i]
			}
		}
		x := first.reader
		if x == nil {
			return Need{}, false
		}
		for ; x.tried < x.soon && x.dataset.Resident(int(x.uses[x.tried].Chunk)); x.tried++ {
			if x.found == x.tried {
				x.found++
			}
			looked++
		}
		if due := x.stall(); due > first.due { // another reader may come first
			first.due = due
			continue
		}
		n = x.need(&x.uses[x.tried])
		x.tried++
		first.due = x.stall()
		return n, true
	}
	return Need{}, true
}

func (x *reader) need(u *use) Need {
	return Need{
		Dataset: x.dataset,
		Chunk:   int(u.Chunk),
		Due:     x.until(u),
		Samples: u.left(x.at.First),
		First:   x.state == opening,
		reader:  x,
	}
}

// until returns how long the reader takes to come to a use.
func (x *reader) until(u *use) time.Duration {
	return takes(u.start-min(x.at.First, u.start), x.rate())
}

// stall returns how long it takes until the reader may have to wait for a chunk that was not looked at yet.
func (x *reader) stall() time.Duration {
	if x.tried == x.soon || x.state == announced { // the one who announces a reader brings what it needs
		return Never
	}
	return x.until(&x.uses[x.tried])
}

// Lost says that a chunk that readers may come for soon is not in memory any more, or has not come: the cursors
// begin anew. Lost takes no lock.
func (r *Readers) Lost() { r.lost.Store(true) }
