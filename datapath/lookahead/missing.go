package lookahead

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

const (
	aheadChunks = 16  // number of chunks after those needed now that are needed soon; more if the window is longer
	foresight   = 64  // minimum number of uses computed at a time
	oneHold     = 256 // number of cursors and chunks that Missing checks before it releases the lock: 0.1 ms
)

// Need is a missing chunk that a reader needs soon.
type Need struct {
	Dataset Dataset
	Chunk   int
	Due     time.Duration // time until the reader stalls because the chunk is missing
	Samples uint64        // samples of the chunk that the reader takes in this use
	First   bool          // the reader's first batch waits for this chunk or others
	reader  *reader
}

// use is one span of positions in which a reader needs a chunk.
type use struct {
	shuffle.Span
	start uint64 // where the span begins, counted from the start of the reader's epoch
	cost  int64  // bytes that the chunk takes in memory
}

func (u *use) end() uint64 { return u.start + u.To - u.From }

// left returns the number of the chunk's samples that are delivered from a position on.
func (u *use) left(at uint64) uint64 {
	if u.start >= at {
		return u.Samples
	}
	return uint64(math.Ceil(float64(u.Samples) * float64(u.end()-min(at, u.end())) / float64(u.To-u.From)))
}

// needList is the list of chunks that one reader needs now and soon, in order of need.
type needList struct {
	uses     []use  // includes some uses that are needed later
	epoch    uint64 // the first epoch of the uses
	soon     int    // number of uses that are needed now or soon
	found    int    // the cursor: number of leading uses found in memory
	tried    int    // number of leading uses checked in this pass of Missing
	complete bool   // the uses reach the end of the next epoch, so there are no more to compute
}

// look computes the chunks that a reader needs now and soon, as far as memory can hold them. Most
// of its cost is starting the iteration over spans at a position, so it computes some more uses
// than needed.
func (r *Readers) look(x *reader) {
	if x.epoch != x.at.Epoch.Number() {
		x.forgetUses()
	}
	for known := -1; !x.reckon(r.cfg.Budget) && !x.complete && known < len(x.uses); {
		known = len(x.uses)
		r.foresee(x, known+max(known/2, foresight))
	}
}

// forgetUses discards the uses of the reader, so that look computes them again.
func (x *reader) forgetUses() {
	x.needList = needList{epoch: x.at.Epoch.Number(), uses: x.uses[:0]}
}

// reckon removes the uses that have ended, counts those that are needed now or soon, and reports
// whether all of these are known.
func (x *reader) reckon(budget int64) (all bool) {
	more := x.reach()
	from, to := x.needs()
	now := min(to, x.at.Plan.Samples())
	kept, found, tried := x.uses[:0], x.found, x.tried
	x.soon = 0
	for i, u := range x.uses {
		if u.end() <= from {
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

// reach returns the number of chunks after those needed now that are needed soon.
func (x *reader) reach() int {
	if params := x.at.Plan.Params(); params.Shuffle == shuffle.Window {
		return max(aheadChunks, int(min(params.Window, 1<<20)))
	}
	return aheadChunks
}

// foresee computes the next uses of a reader, at most the given number. It uses the next epoch only
// if necessary.
func (r *Readers) foresee(x *reader, most int) {
	x.uses = slices.Grow(x.uses[:0], most)
	take := func(span shuffle.Span, start uint64) bool {
		if r.mine(x.dataset, x.at.Plan, x.groups, span.Chunk) {
			x.uses = append(x.uses, use{span, start, x.dataset.Cost(int(span.Chunk))})
		}
		return len(x.uses) < most
	}
	from, _ := x.needs()
	for span := range x.at.Epoch.Spans(from) {
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

// horizon returns the number of samples after the reader's position within which all chunks begin
// that it needs soon. Chunks of a window begin together, even if memory has no room for some of
// them.
func (x *reader) horizon() uint64 {
	from, to := x.needs()
	switch {
	case x.soon < len(x.uses):
		reach := max(x.uses[x.soon].start, to)
		if x.soon > 0 {
			reach = max(reach, x.uses[x.soon-1].start+1)
		}
		return reach - from
	case len(x.uses) == 0:
		return to - from
	case x.next == nil:
		return x.at.Plan.Samples() - from
	}
	return 2*x.at.Plan.Samples() - from
}

// turn is a reader and the time at which it would stall.
type turn struct {
	reader *reader
	due    time.Duration
}

// Missing yields the chunks that readers need soon and that are neither in memory nor being loaded.
// The chunk whose reader would stall first comes first, so each free fetcher goes to the reader
// that needs it most. A chunk that the caller does not start to load is skipped until the next
// call. There must be only one caller at a time.
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

// rewind moves all cursors back to the first chunk that was missing in the last pass, or to the
// first use if a chunk was lost.
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

// firstMissing returns the need that is due first, and advances its cursor. If it finds many chunks
// in memory, it returns a need without a reader, so that the lock is not held for long.
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
		if due := x.stall(); due > first.due { // another reader may be due first
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
	from, _ := x.needs()
	return Need{
		Dataset: x.dataset,
		Chunk:   int(u.Chunk),
		Due:     x.until(u),
		Samples: u.left(from),
		First:   x.state == opening,
		reader:  x,
	}
}

// until returns the time until the reader reaches a use.
func (x *reader) until(u *use) time.Duration {
	from, _ := x.needs()
	return takes(u.start-min(from, u.start), x.rate())
}

// stall returns the time until the reader may have to wait for a chunk that has not been checked
// yet.
func (x *reader) stall() time.Duration {
	if x.tried == x.soon || x.state == announced { // the caller of Announce loads its chunks
		return Never
	}
	return x.until(&x.uses[x.tried])
}

// Lost records that a chunk that readers may need soon was evicted or failed to load: the cursors
// restart. Lost takes no lock.
func (r *Readers) Lost() { r.lost.Store(true) }
