package lookahead

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Dataset is what readers read. It is compared with ==, so an implementation is a pointer or something like it.
type Dataset interface {
	Chunks() int
	Cost(chunk int) int64    // bytes that the chunk takes in memory
	Resident(chunk int) bool // whether it is there, or on its way
}

// Config of Readers.
type Config struct {
	Budget int64 // bytes of memory that may be used for what readers come for
	Plans  int64 // bytes that the plans of readers may keep alive beside it; 0: no limit

	// Mine says which chunks readers come here for; nil: all. The others, which another gateway keeps, are not
	// expected, not needed and never next. It is called under locks of the table and of whoever calls it, for many chunks: it
	// must be quick and call neither. When it changes its mind, Reowned must be called.
	Mine func(d Dataset, chunk int) bool
}

// Place is one chunk of one data set.
type Place struct {
	Dataset Dataset
	Chunk   int
}

// readerLimit is how many readers are followed at once, and fewer where their plans are large.
const readerLimit = 64

// Bytes that orders keep for each chunk of their data set, and for each lane of Slot, as a lane may cut a chunk.
const (
	epochHolds = 48 // the order of the chunks, its inverse and sums over it, in an epoch
	pieceHolds = 16 // what Slot keeps in its plan, or with importance in an epoch
	laneHolds  = 36 // beside that, for each lane
	drawHolds  = 8  // with importance, in a plan and in an epoch
)

// Readers is the table of those who read. It is safe for concurrent use.
type Readers struct {
	cfg Config

	mu      sync.Mutex // guards readers, ranks and what is in them
	readers []*reader
	ranks   map[rankKey]*rank
	numbers uint64        // of readers so far
	moves   int           // since the horizon was worked out, of readers that need other chunks now
	shared  bool          // some chunk of the horizon is needed twice
	listed  map[Place]int // scratch of Needs

	horizon  atomic.Pointer[Horizon]
	standing atomic.Pointer[[]standing] // for Next, which must not wait
}

// New returns a table without readers.
func New(cfg Config) *Readers {
	r := &Readers{cfg: cfg, ranks: map[rankKey]*rank{}, listed: map[Place]int{}}
	r.horizon.Store(&Horizon{})
	r.standing.Store(&[]standing{})
	return r
}

// Visit is one request.
type Visit struct {
	of     *Readers
	rank   *rank
	reader *reader // nil: its order has no locality, so nothing can be known of what comes next, or too many are followed
	begun  time.Time
	first  bool
	think  time.Duration
	plan   *shuffle.Plan
	groups groups // of its reader's ranks that read here
}

// Asked notes a request of a plan, at.Plan, which has moved its reader to where it is, wherever that is: one out of
// order moves it all the same. Answered and then Ended must follow.
func (r *Readers) Asked(d Dataset, at shuffle.Cursor, now time.Time) *Visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	rank, thought, known := r.step(d, at, now)
	v := &Visit{of: r, rank: rank, begun: now, think: rank.think(), plan: at.Plan}
	if !at.Epoch.Local() {
		return v
	}
	x, changed := r.move(d, at, now)
	r.join(rank, x)
	if x != nil {
		if r.cfg.Mine == nil && x.came(at, now) { // an owner reads for the ranks of all gateways
			x.looked, x.future, changed = false, x.future[:0], true
		}
		v.groups = x.groups
		x.reading++
		v.reader, v.first = x, !x.served
		if known {
			rank.demand.note(thought, at)
			x.thought(rank, now)
		}
	}
	if changed || x != nil && x.stale() && r.due(x) {
		r.expect()
	}
	if changed {
		r.anchor(now)
	}
	r.stand(now)
	return v
}

// Heard notes that a rank that reads at another gateway stands there, and for how long it thinks between two batches (0: that is
// not known), so that what it will ask this one for is here in time. Its reader is one of this table like others, and
// forgotten like them; only List does not know it.
func (r *Readers) Heard(d Dataset, at shuffle.Cursor, think time.Duration, now time.Time) {
	if !at.Epoch.Local() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	x, changed := r.move(d, at, now)
	if x != nil {
		x.far, x.served, x.left = true, true, false
		x.heard(at, think, now)
	}
	if changed || x != nil && x.stale() && r.due(x) {
		r.expect()
	}
	if changed {
		r.anchor(now)
	}
	r.stand(now)
}

// Reowned says that Mine may answer otherwise than before.
func (r *Readers) Reowned() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.readers {
		x.looked, x.future = false, x.future[:0]
	}
	r.expect()
	is := r.horizon.Load()
	r.horizon.Store(&Horizon{is.places, is.clock + 1})
}

// mine reports whether a reader of a plan comes here for a chunk.
func (r *Readers) mine(d Dataset, p *shuffle.Plan, g groups, chunk uint64) bool {
	return g.comeFor(p, chunk) && (r.cfg.Mine == nil || r.cfg.Mine(d, int(chunk)))
}

// Plan returns a plan of such parameters that somebody reads, nil if nobody does. It takes no lock.
func (r *Readers) Plan(d Dataset, params shuffle.Params) *shuffle.Plan {
	for _, s := range *r.standing.Load() {
		if s.dataset == d && s.plan.Params() == params {
			return s.plan
		}
	}
	return nil
}

// Stands returns where the reader of a number stands, as far as plan, epoch and first position go; false: it has gone. Numbers
// are those of Visit.Number.
func (r *Readers) Stands(number uint64) (at shuffle.Cursor, ok bool) {
	for _, s := range *r.standing.Load() {
		if s.number == number {
			return shuffle.Cursor{Plan: s.plan, Epoch: s.epoch, First: s.first}, true
		}
	}
	return shuffle.Cursor{}, false
}

// Announce notes that somebody is going to read from a position on, and has what is there brought beforehand. Until he
// comes his chunks are expected as those of a reader who stands at the first position announced.
func (r *Readers) Announce(d Dataset, at shuffle.Cursor, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !at.Epoch.Local() {
		return
	}
	for _, x := range r.readers {
		if x.announced && x.reads(d, at) && x.at.Epoch.Number() == at.Epoch.Number() && x.at.First <= at.First {
			x.seen = now
			return
		}
	}
	if r.find(d, at) != nil {
		return // somebody reads there already
	}
	x := r.add(d, at, now)
	if x == nil {
		return
	}
	x.announced, x.served = true, true // nobody waits for what is fetched ahead of him
	r.expect()
	r.anchor(now)
	r.stand(now)
}

// First reports whether the reader waits for its first batch: nothing was fetched ahead of it.
func (v *Visit) First() bool { return v.first }

// Followed reports whether it is known what the reader comes for.
func (v *Visit) Followed() bool { return v.reader != nil }

// ComesFor reports whether the reader comes here for a chunk, as far as is known: not for one whose samples are at home with
// ranks that read at other gateways. Of such a chunk it takes a few samples at most, in each epoch other ones.
func (v *Visit) ComesFor(chunk int) bool { return v.groups.comeFor(v.plan, uint64(chunk)) }

// Think returns for how long the rank thinks from the end of an answer to its next request, the mean of late; 0: that is not known.
func (v *Visit) Think() time.Duration { return v.think }

// Number names the reader, 0 for one that is not followed.
func (v *Visit) Number() uint64 {
	if v.reader == nil {
		return 0
	}
	return v.reader.number
}

// Answered notes that the bytes are there, or that they will not come. It reports whether the reader is new, and now
// has its first batch.
func (v *Visit) Answered(now time.Time) (first bool) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.waited += now.Sub(v.begun).Seconds()
	if v.reader == nil {
		return false
	}
	first = !v.reader.served
	v.reader.served, v.reader.seen = true, now
	v.reader.reading--
	return first
}

// Ended notes that the answer is sent.
func (v *Visit) Ended(now time.Time) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.open--
	v.rank.done = now
}

// move finds or makes the reader that a request belongs to, nil if too many are followed, and reports whether readers have come or
// gone. The caller holds mu, as in what follows.
func (r *Readers) move(d Dataset, at shuffle.Cursor, now time.Time) (x *reader, changed bool) {
	if x = r.find(d, at); x != nil {
		x.seen = now // before it is missed: it was away for long, and has come back
		if x.announced {
			x.announced, x.step = false, now
		}
	}
	changed = r.dropIdle(now)
	if x == nil {
		if x = r.add(d, at, now); x == nil {
			return nil, changed
		}
		changed = true
	}
	switch here, there := at.Epoch.Number(), x.at.Epoch.Number(); {
	case here > there:
		if x.next != nil && x.next.Number() != here+1 {
			x.next = nil
		}
		x.looked = false
		x.advance(at, now)
	case here == there && at.First > x.at.First:
		x.advance(at, now)
	case here == there:
		x.late(at)
	}
	return x, changed
}

// add follows one more reader, if there is room for it.
func (r *Readers) add(d Dataset, at shuffle.Cursor, now time.Time) *reader {
	if !r.makeRoom(d, at, now) {
		return nil
	}
	r.numbers++
	x := &reader{number: r.numbers, dataset: d, at: at, step: now, seen: now}
	r.readers = append(r.readers, x)
	return x
}

// find returns the reader that a request belongs to: the one of the same plan that stands near it.
func (r *Readers) find(d Dataset, at shuffle.Cursor) *reader {
	for _, x := range r.readers {
		if x.reads(d, at) && x.near(at) {
			return x
		}
	}
	return nil
}

// makeRoom forgets readers until one more may be followed, and reports whether it may. Those make room who are announced, or
// have not been heard of for a while, the longest first. Of the others none does: where more read than can be followed, each would
// drive out another at every request, and nothing fetched ahead would be there still when its reader comes.
func (r *Readers) makeRoom(d Dataset, at shuffle.Cursor, now time.Time) bool {
	for len(r.readers) > 0 && (len(r.readers) >= readerLimit || r.cfg.Plans > 0 && r.holds(d, at) > r.cfg.Plans) {
		var oldest *reader
		for _, x := range r.readers {
			idle := x.announced || x.reading == 0 && now.Sub(x.seen) > readerNew
			if idle && (oldest == nil || x.seen.Before(oldest.seen)) {
				oldest = x
			}
		}
		if oldest == nil {
			return false
		}
		r.readers = slices.DeleteFunc(r.readers, func(x *reader) bool { return x == oldest })
	}
	return true
}

// holds is what the readers keep alive, with one more: their plans and epochs, and the next ones where an epoch ends. Who
// reads a plan that another one reads adds only the last.
func (r *Readers) holds(d Dataset, at shuffle.Cursor) int64 {
	sum := holds(d, at.Plan, false)
	for i, x := range r.readers {
		twin := slices.ContainsFunc(r.readers[:i], func(o *reader) bool { return o.reads(x.dataset, x.at) }) || x.reads(d, at)
		sum += holds(x.dataset, x.at.Plan, twin)
	}
	return sum
}

// holds is what one reader keeps alive; twin says that another one reads the same plan.
func holds(d Dataset, p *shuffle.Plan, twin bool) int64 {
	var plan, epoch int64
	params, chunks := p.Params(), int64(d.Chunks())
	if params.Shuffle != shuffle.None {
		epoch += epochHolds
	}
	if params.Importance != "" {
		plan, epoch = plan+drawHolds, epoch+drawHolds
	}
	var lanes int64
	if params.Shuffle == shuffle.Slot {
		lanes = int64(min(params.Window, p.Samples()))
		if params.Importance != "" {
			epoch += pieceHolds
		} else {
			plan += pieceHolds
		}
	}
	all := epoch * (chunks + lanes)
	if !twin {
		all += (plan+epoch)*(chunks+lanes) + laneHolds*lanes
	}
	return all
}

// dropIdle forgets readers that have gone, and reports whether there were any.
func (r *Readers) dropIdle(now time.Time) bool {
	n := len(r.readers)
	r.readers = slices.DeleteFunc(r.readers, func(x *reader) bool { return x.reading == 0 && now.Sub(x.seen) > x.patience() })
	return len(r.readers) != n
}
