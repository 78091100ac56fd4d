package lookahead

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	Budget int64 // bytes of memory for what a reader comes for soon
	Plans  int64 // bytes that the plans of readers may keep alive beside it; 0: no limit

	// Mine says which chunks readers come here for; nil: all. The others, which another
	// gateway keeps, are never due and never missing. It is called under locks of the table and of
	// the caller, for many chunks: it must be quick and call neither. When it changes its mind,
	// Reowned must be called.
	Mine func(d Dataset, chunk int) bool
}

// hints is for how many chunks it is remembered which reader comes first: those that are asked again and again
// before one goes are some ten.
const hints = 4096

// Readers is the table of readers. It is safe for concurrent use.
type Readers struct {
	cfg Config

	mu      sync.Mutex // guards what follows and what is in it
	plans   map[planKey][]*reader
	all     []*reader // the one first that came first
	lacking []*reader // need their next epochs, which are to be prepared without the lock
	held    int64     // bytes that the plans of the readers keep alive
	ranks   *simplelru.LRU[rankKey, *rank]

	changes atomic.Uint64
	lost    atomic.Bool                           // a chunk has gone that a reader comes for soon
	soonest [hints]atomic.Uint32                  // by chunk: which of its known readers came first when it was asked last
	known   atomic.Pointer[map[Dataset][]*reader] // the readers, for NextUse, which must not wait for the table
}

// New returns a table without readers.
func New(cfg Config) *Readers {
	r := &Readers{cfg: cfg, plans: map[planKey][]*reader{}}
	r.ranks, _ = simplelru.NewLRU[rankKey, *rank](maxRanks, nil) // an error says that the size is not above 0
	r.publish()
	return r
}

// Visit is one request.
type Visit struct {
	First bool          // its reader had no batch when it came: nothing was fetched ahead of it
	Opens bool          // it is for its reader's first batch; one for a later batch that came before that is read has First alone
	Think time.Duration // of its rank, from the end of an answer to the next request, the mean of late; 0: not known

	of     *Readers
	rank   *rank
	reader *reader // nil: its order has no locality, so nothing can be known of what comes next, or too many are followed
}

// Asked notes a request of a plan, at.Plan, which has moved its reader to where it is, wherever that is: one out of
// order moves it all the same. Answered and then Ended must follow.
func (r *Readers) Asked(d Dataset, at shuffle.Cursor, now time.Time) *Visit {
	return r.AskedAs(d, at, Arrival{}, now)
}

// AskedAs is Asked for a request of which more is known.
func (r *Readers) AskedAs(d Dataset, at shuffle.Cursor, a Arrival, now time.Time) *Visit {
	prepare(at.Epoch)
	r.mu.Lock()
	defer r.unlock()
	rank, thought, known := r.step(d, at, a, now)
	v := &Visit{of: r, rank: rank, Think: rank.think()}
	if !at.Epoch.Local() {
		return v
	}
	x := r.move(d, at, now)
	r.join(rank, x)
	if x == nil {
		return v
	}
	if r.cfg.Mine == nil && x.came(at, now) { // an owner reads for the ranks of all gateways
		x.forgetUses()
		r.changes.Add(1)
	}
	x.reading++
	v.reader, v.First, v.Opens = x, x.state < served, x.opens(at)
	if known {
		rank.demand.note(thought, at)
		x.thought(rank, now)
	}
	r.stand(x)
	return v
}

// prepare has an epoch work out where its order has each chunk, which it does once, when it is first
// asked: for a million chunks that takes 40 ms, and no lock is held for as long.
func prepare(e *shuffle.Epoch) { e.Next(0, 0) }

// unlock ends what has begun with mu locked, and then prepares the epochs that readers have come near.
func (r *Readers) unlock() {
	for len(r.lacking) > 0 {
		x := r.lacking[0]
		r.lacking = slices.Delete(r.lacking, 0, 1)
		plan, number := x.at.Plan, x.coming
		if plan == nil { // the reader has gone
			continue
		}
		r.mu.Unlock()
		next := plan.Epoch(number)
		prepare(next)
		r.mu.Lock()
		x.coming = 0
		if x.at.Plan != nil && x.at.Epoch.Number()+1 == number {
			x.next = next
			r.stand(x)
		}
	}
	r.mu.Unlock()
}

// Heard notes that a rank that reads at another gateway stands there, and for how long it thinks between two batches (0: that is
// not known), so that what it will ask this one for is here in time. Its reader is one of this table like others, and
// forgotten like them; only List does not know it.
func (r *Readers) Heard(d Dataset, at shuffle.Cursor, think time.Duration, now time.Time) {
	if !at.Epoch.Local() {
		return
	}
	prepare(at.Epoch)
	r.mu.Lock()
	defer r.unlock()
	k, x := r.rankOf(d, at, now), r.move(d, at, now)
	r.join(k, x)
	if x == nil {
		return
	}
	k.seen, k.elsewhere, x.state = now, true, served
	if think > 0 {
		k.demand = demand{float64(at.End - at.First), think.Seconds()}
		x.thought(k, now)
	}
	r.stand(x)
}

// Reowned says that Mine may answer otherwise than before.
func (r *Readers) Reowned() {
	r.mu.Lock()
	defer r.unlock()
	for _, x := range slices.Clone(r.all) {
		x.forgetUses()
		r.stand(x)
		r.changes.Add(1)
	}
}

// mine reports whether a reader of a plan comes here for a chunk.
func (r *Readers) mine(d Dataset, p *shuffle.Plan, g groups, chunk uint64) bool {
	return g.comeFor(p, chunk) && (r.cfg.Mine == nil || r.cfg.Mine(d, int(chunk)))
}

// Announce notes that a reader is going to come to a position, whose caller brings what is there beforehand. Until the
// reader comes its chunks are due as those of one that stands at the first position announced.
func (r *Readers) Announce(d Dataset, at shuffle.Cursor, now time.Time) {
	r.mu.Lock()
	defer r.unlock()
	if !at.Epoch.Local() {
		return
	}
	for _, x := range r.plans[keyOf(d, at)] {
		if x.state == announced && x.at.Epoch.Number() == at.Epoch.Number() && x.at.First <= at.First {
			x.seen = now
			return
		}
	}
	if r.find(d, at) != nil {
		return // a reader is there already
	}
	if x := r.add(d, at, now); x != nil {
		x.state = announced
		r.stand(x)
	}
}

// Forget forgets readers that have gone.
func (r *Readers) Forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropIdle(now)
}

// Drop forgets all readers and ranks of a data set. No visit of the data set is open, and none begins.
func (r *Readers) Drop(d Dataset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range slices.Clone(r.all) {
		if x.dataset == d {
			r.remove(x)
		}
	}
	r.lacking = slices.DeleteFunc(r.lacking, func(x *reader) bool { return x.dataset == d })
	for _, k := range r.ranks.Keys() {
		if k.Dataset == d {
			r.ranks.Remove(k)
		}
	}
	r.publish()
}

// Changes returns a count that grows when readers go, or come for other chunks than was to be
// expected. It takes no lock.
func (r *Readers) Changes() uint64 { return r.changes.Load() }

// Alone notes that a first batch waits for no whole chunk: it is read sample by sample.
func (v *Visit) Alone() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.reader.state < served {
		v.reader.state = alone
	}
}

// Followed reports whether it is known what the reader comes for.
func (v *Visit) Followed() bool { return v.reader != nil }

// Stands returns where the reader stands now, as far as plan, epoch and first position go; false: it has gone, or was never followed.
func (v *Visit) Stands() (at shuffle.Cursor, ok bool) {
	if s := v.stands(); s != nil {
		return shuffle.Cursor{Plan: s.plan, Epoch: s.epoch, First: s.first}, true
	}
	return shuffle.Cursor{}, false
}

// stands returns where the reader stands, nil for one that has gone, or was never followed.
func (v *Visit) stands() *standing {
	if v.reader == nil {
		return nil
	}
	return v.reader.stands.Load()
}

// Answered notes that the bytes are there, or that they will not come. It reports whether the reader is new, and now
// has its first batch.
func (v *Visit) Answered(now time.Time) (first bool) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.clock.answered(now)
	if v.reader == nil {
		return false
	}
	first = v.reader.state < served
	v.reader.state, v.reader.seen = served, now
	v.reader.reading--
	return first
}

// Ended notes that the answer is sent.
func (v *Visit) Ended(now time.Time) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.open--
	v.rank.clock.ended(now)
	v.rank.done = now
}
