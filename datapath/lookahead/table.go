package lookahead

import (
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// readerLimit is how many readers are followed at once, and fewer where their plans are large.
const readerLimit = 1024

// Bytes that an order keeps for each chunk of its data set, and for each lane of Slot, as a lane may cut a chunk: the order
// of the chunks, its inverse and sums over it in an epoch, and half of what the plan keeps for its epochs.
const (
	epochHolds = 56
	drawnHolds = 72 // with importance
)

// planKey names a plan. The same plan prepared again is the same: its order follows from the data
// set and the parameters.
type planKey struct {
	dataset Dataset
	params  shuffle.Params
}

func keyOf(d Dataset, at shuffle.Cursor) planKey { return planKey{d, at.Plan.Params()} }

// move finds or makes the reader that a request belongs to, nil if too many are followed, and takes it there. The caller
// holds mu, as in what follows, and then calls stand.
func (r *Readers) move(d Dataset, at shuffle.Cursor, now time.Time) *reader {
	x := r.find(d, at)
	if x == nil {
		return r.add(d, at, now)
	}
	x.seen = now
	if x.state == announced {
		x.state, x.step = served, now // no request waits for what is fetched ahead of it
	}
	switch here, there := at.Epoch.Number(), x.at.Epoch.Number(); {
	case here > there:
		if x.next != nil && x.next.Number() != here+1 {
			x.next = nil
		}
		x.advance(at, now)
	case here == there && at.First > x.at.First:
		x.advance(at, now)
	case here == there:
		x.late(at)
	}
	return x
}

// stand looks ahead from where a reader stands now, and publishes that.
func (r *Readers) stand(x *reader) {
	r.look(x)
	stands := x.standing()
	if stands.first+stands.soon > stands.total {
		stands.next = r.after(x)
	}
	x.stands.Store(&stands)
}

// after returns the reader's next epoch; nil: it is prepared as soon as mu is unlocked.
func (r *Readers) after(x *reader) *shuffle.Epoch {
	number := x.at.Epoch.Number() + 1
	if x.next != nil || x.coming != 0 {
		return x.next
	}
	for _, o := range r.plans[keyOf(x.dataset, x.at)] {
		switch {
		case o.at.Epoch.Number() == number:
			x.next = o.at.Epoch
		case o.next != nil && o.next.Number() == number:
			x.next = o.next
		}
	}
	if x.next == nil {
		x.coming = number
		r.lacking = append(r.lacking, x)
	}
	return x.next
}

// find returns the reader that a request belongs to: the one of the same plan that stands near it.
func (r *Readers) find(d Dataset, at shuffle.Cursor) *reader {
	for _, x := range r.plans[keyOf(d, at)] {
		if x.near(at) {
			return x
		}
	}
	return nil
}

// add follows one more reader, if there is room for it.
func (r *Readers) add(d Dataset, at shuffle.Cursor, now time.Time) *reader {
	r.dropIdle(now)
	if !r.makeRoom(d, at, now) {
		return nil
	}
	x := &reader{dataset: d, at: at, firstEpoch: at.Epoch.Number(), firstBatch: at.First, step: now, seen: now, state: opening}
	r.all = append(r.all, x)
	k := keyOf(d, at)
	r.held += r.holds(k, at.Plan)
	r.plans[k] = append(r.plans[k], x)
	r.stand(x)
	r.publish()
	return x
}

// remove forgets a reader, and lets go of its plan and its epochs.
func (r *Readers) remove(x *reader) {
	r.changes.Add(1)
	is := func(o *reader) bool { return o == x }
	r.all = slices.DeleteFunc(r.all, is)
	k := keyOf(x.dataset, x.at)
	if r.plans[k] = slices.DeleteFunc(r.plans[k], is); len(r.plans[k]) == 0 {
		delete(r.plans, k)
	}
	r.held -= r.holds(k, x.at.Plan)
	x.at, x.next, x.ahead = shuffle.Cursor{}, nil, ahead{} // visits and ranks may know the reader still
	x.stands.Store(nil)
}

// publish tells which readers there are to those who must not wait, plan by plan: questions about one epoch follow each other.
func (r *Readers) publish() {
	all := map[Dataset][]*reader{}
	for k, readers := range r.plans {
		all[k.dataset] = append(all[k.dataset], readers...)
	}
	r.known.Store(&all)
}

// makeRoom forgets readers until one more may be followed, and reports whether it may. Those make room that are announced, or
// have not been heard of for a while, the longest first. Of the others none does: where more read than can be followed, each would
// drive out another at every request, and nothing fetched ahead would be there still when its reader comes.
func (r *Readers) makeRoom(d Dataset, at shuffle.Cursor, now time.Time) bool {
	for len(r.all) > 0 && (len(r.all) >= readerLimit || r.cfg.Plans > 0 && r.held+r.holds(keyOf(d, at), at.Plan) > r.cfg.Plans) {
		var oldest *reader
		for _, x := range r.all {
			idle := x.state == announced || x.reading == 0 && now.Sub(x.seen) > readerNew
			if idle && (oldest == nil || x.seen.Before(oldest.seen)) {
				oldest = x
			}
		}
		if oldest == nil {
			return false
		}
		r.remove(oldest)
	}
	return true
}

// holds is what one more reader of a plan keeps alive: the plan and two of its epochs, or one epoch
// where another reader has the rest.
func (r *Readers) holds(k planKey, p *shuffle.Plan) int64 {
	each, epochs, chunks := int64(epochHolds), int64(2), int64(k.dataset.Chunks())
	switch {
	case k.params.Importance != "":
		each = drawnHolds
	case k.params.Shuffle == shuffle.None:
		return 0
	}
	if k.params.Shuffle == shuffle.Slot {
		chunks += int64(min(k.params.Window, p.Samples()))
	}
	if len(r.plans[k]) > 0 {
		epochs = 1
	}
	return each * epochs * chunks
}

// dropIdle forgets readers that have gone.
func (r *Readers) dropIdle(now time.Time) {
	var gone []*reader
	for _, x := range r.all {
		if x.reading == 0 && now.Sub(x.seen) > x.patience() {
			gone = append(gone, x)
		}
	}
	for _, x := range gone {
		r.remove(x)
	}
	if len(gone) > 0 {
		r.publish()
	}
}
