package lookahead

import (
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// readerLimit is the maximum number of readers in the table. There are fewer if their plans are
// large.
const readerLimit = 1024

// Bytes that an order keeps for each chunk of its dataset, and for each lane of Slot, since a lane
// may split a chunk. They are the order of the chunks, its inverse and its running sums for an
// epoch, and half of the plan's data for its epochs.
const (
	epochHolds = 56
	drawnHolds = 72 // with importance
)

// planKey identifies a plan. A plan that is prepared again has the same key, since the order
// depends only on the dataset and the parameters.
type planKey struct {
	dataset Dataset
	params  shuffle.Params
}

func keyOf(d Dataset, at shuffle.Cursor) planKey { return planKey{d, at.Plan.Params()} }

// move finds or adds the reader of a request, and moves it to the request's position. It returns
// nil if there are too many readers. The caller of this method and of those below holds mu, and
// then calls update.
func (r *Readers) move(d Dataset, at shuffle.Cursor, now time.Time) *reader {
	x := r.find(d, at)
	if x == nil {
		return r.add(d, at, now)
	}
	x.seen = now
	if x.state == announced {
		x.state, x.step = served, now // no request waits for its prefetched chunks
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

// update computes the uses ahead of a reader's position, and publishes the position.
func (r *Readers) update(x *reader) {
	r.look(x)
	here := x.currentPosition()
	if here.first+here.soon > here.total {
		here.next = r.after(x)
	}
	x.position.Store(&here)
}

// after returns the reader's next epoch, or nil if the epoch will be prepared when mu is unlocked.
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

// find returns the reader of a request: a reader of the same plan near its position.
func (r *Readers) find(d Dataset, at shuffle.Cursor) *reader {
	for _, x := range r.plans[keyOf(d, at)] {
		if x.near(at) {
			return x
		}
	}
	return nil
}

// add adds a reader, if there is room for it.
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
	r.update(x)
	r.publish()
	return x
}

// remove removes a reader, and drops the references to its plan and epochs.
func (r *Readers) remove(x *reader) {
	r.changes.Add(1)
	is := func(o *reader) bool { return o == x }
	r.all = slices.DeleteFunc(r.all, is)
	k := keyOf(x.dataset, x.at)
	if r.plans[k] = slices.DeleteFunc(r.plans[k], is); len(r.plans[k]) == 0 {
		delete(r.plans, k)
	}
	r.held -= r.holds(k, x.at.Plan)
	x.at, x.next, x.needList = shuffle.Cursor{}, nil, needList{} // visits and ranks may still reference the reader
	x.position.Store(nil)
}

// publish stores the list of readers for NextUse and NextRead, which take no lock. It is sorted by
// plan, so that lookups in one epoch are consecutive.
func (r *Readers) publish() {
	all := map[Dataset][]*reader{}
	for k, readers := range r.plans {
		all[k.dataset] = append(all[k.dataset], readers...)
	}
	r.known.Store(&all)
}

// makeRoom removes readers until another one fits, and reports whether it fits. It removes
// announced readers and readers without a request for a while, the one idle for the longest time
// first. It removes no active reader. Otherwise, with more readers than fit, each request would
// remove another reader, and prefetched chunks would be evicted before their reader arrives.
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

// holds returns the number of bytes that one more reader of a plan keeps alive: the plan and two of
// its epochs, or one epoch if another reader already keeps the rest.
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

// dropIdle removes readers that have ended.
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
