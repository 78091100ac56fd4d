package lookahead

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/millrace-data/millrace/shuffle"
)

// Dataset is a dataset that readers read. It is compared with ==, so an implementation should be a
// pointer.
type Dataset interface {
	Chunks() int
	Cost(chunk int) int64    // bytes that the chunk takes in memory
	Resident(chunk int) bool // reports whether the chunk is in memory or being loaded
}

// Config configures Readers.
type Config struct {
	Budget int64 // bytes of memory for the chunks that a reader needs soon
	Plans  int64 // bytes that the readers' plans may keep alive in addition; 0: no limit

	// Mine reports whether readers need a chunk from this gateway; nil: all chunks. Other
	// chunks, which another gateway keeps, are never due and never missing. Mine is called for
	// many chunks, under locks of the table and of the caller: it must return quickly and call
	// neither of them. When its results change, Reowned must be called.
	Mine func(d Dataset, chunk int) bool
}

// hints is the number of cells that remember which reader uses a chunk first. Only about ten chunks
// are looked up repeatedly before one is evicted.
const hints = 4096

// Readers is the table of readers. It is safe for concurrent use.
type Readers struct {
	cfg Config

	mu      sync.Mutex // guards the fields below and their elements
	plans   map[planKey][]*reader
	all     []*reader // in the order in which they were added
	lacking []*reader // readers whose next epoch must be prepared, without the lock
	held    int64     // bytes that the readers' plans keep alive
	ranks   *simplelru.LRU[rankKey, *rank]

	changes atomic.Uint64
	lost    atomic.Bool                           // a chunk was evicted that a reader needs soon
	soonest [hints]atomic.Uint32                  // by chunk: index of the reader with the first use, from the last lookup
	known   atomic.Pointer[map[Dataset][]*reader] // the readers, for NextUse and NextRead, which must not lock the table
}

// New returns a table without readers.
func New(cfg Config) *Readers {
	r := &Readers{cfg: cfg, plans: map[planKey][]*reader{}}
	r.ranks, _ = simplelru.NewLRU[rankKey, *rank](maxRanks, nil) // an error is possible only for a size of 0
	r.publish()
	return r
}

// Visit is the record of one request.
type Visit struct {
	First bool          // the reader had no batch when the request arrived: nothing was prefetched for it
	Opens bool          // the request is for the reader's first batch; a request for a later batch that arrives before the first batch is read sets only First
	Think time.Duration // recent mean time from the end of an answer to the rank's next request; 0: unknown

	of     *Readers
	rank   *rank
	reader *reader // nil: the order has no locality, so the next chunks are unknown, or there are too many readers
}

// Asked records a request for the plan at.Plan, and moves its reader to the request's position. A
// request out of order also moves its rank. The caller must call Answered and then Ended.
func (r *Readers) Asked(d Dataset, at shuffle.Cursor, now time.Time) *Visit {
	return r.AskedAs(d, at, Arrival{}, now)
}

// AskedAs is like Asked, for a request that arrived as a describes.
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
	if r.cfg.Mine == nil && x.came(at, now) { // if Mine is set, an owner reads for the ranks of all gateways
		x.forgetUses()
		r.changes.Add(1)
	}
	x.reading++
	v.reader, v.First, v.Opens = x, x.state < served, x.opens(at)
	if known {
		rank.demand.note(thought, at)
		x.thought(rank, now)
	}
	r.update(x)
	return v
}

// prepare computes the positions of all chunks in an epoch. The epoch does that once, at the first
// lookup. For a million chunks it takes 40 ms, so prepare is called without a lock.
func prepare(e *shuffle.Epoch) { e.Next(0, 0) }

// unlock unlocks mu, and prepares the epochs that readers will need soon.
func (r *Readers) unlock() {
	for len(r.lacking) > 0 {
		x := r.lacking[0]
		r.lacking = slices.Delete(r.lacking, 0, 1)
		plan, number := x.at.Plan, x.coming
		if plan == nil { // the reader has been removed
			continue
		}
		r.mu.Unlock()
		next := plan.Epoch(number)
		prepare(next)
		r.mu.Lock()
		x.coming = 0
		if x.at.Plan != nil && x.at.Epoch.Number()+1 == number {
			x.next = next
			r.update(x)
		}
	}
	r.mu.Unlock()
}

// Heard records the position and think time (0: unknown) of a rank that reads at another gateway,
// so that its chunks are prefetched here. Its reader is treated like others in this table; only
// List omits it.
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
	r.update(x)
}

// Reowned records that the results of Mine may have changed.
func (r *Readers) Reowned() {
	r.mu.Lock()
	defer r.unlock()
	for _, x := range slices.Clone(r.all) {
		x.forgetUses()
		r.update(x)
		r.changes.Add(1)
	}
}

// mine reports whether a reader of a plan needs a chunk from this gateway.
func (r *Readers) mine(d Dataset, p *shuffle.Plan, g groups, chunk uint64) bool {
	return g.comeFor(p, chunk) && (r.cfg.Mine == nil || r.cfg.Mine(d, int(chunk)))
}

// Announce records that a reader will start at a position, and that the caller loads its chunks
// beforehand. Until the reader arrives, its chunks are due as if it were at the first announced
// position.
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
		return // a reader is already there
	}
	if x := r.add(d, at, now); x != nil {
		x.state = announced
		r.update(x)
	}
}

// Forget removes readers that have ended.
func (r *Readers) Forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropIdle(now)
}

// Drop removes all readers and ranks of a dataset. No visit of the dataset may be open, and none
// may begin.
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

// Changes returns a counter that grows when readers are removed, or need other chunks than
// predicted. It takes no lock.
func (r *Readers) Changes() uint64 { return r.changes.Load() }

// Alone records that a first batch waits for no whole chunk, because it is read by sample ranges.
func (v *Visit) Alone() {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	if v.reader.state < served {
		v.reader.state = alone
	}
}

// Followed reports whether the chunks that the reader needs next are known.
func (v *Visit) Followed() bool { return v.reader != nil }

// Position returns the current position of the reader, with only plan, epoch and first position set.
// ok is false if the reader was removed, or was never followed.
func (v *Visit) Position() (at shuffle.Cursor, ok bool) {
	if s := v.position(); s != nil {
		return shuffle.Cursor{Plan: s.plan, Epoch: s.epoch, First: s.first}, true
	}
	return shuffle.Cursor{}, false
}

// position returns the reader's position, or nil if the reader was removed or was never followed.
func (v *Visit) position() *position {
	if v.reader == nil {
		return nil
	}
	return v.reader.position.Load()
}

// Answered records that the bytes have arrived, or that the read failed. It reports whether this
// was the first batch of the reader.
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

// Ended records that the answer was sent.
func (v *Visit) Ended(now time.Time) {
	v.of.mu.Lock()
	defer v.of.mu.Unlock()
	v.rank.open--
	v.rank.clock.ended(now)
	v.rank.done = now
}
