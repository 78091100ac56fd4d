package lookahead

import (
	"math"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Need is a chunk within the horizon that some reader comes for.
type Need struct {
	Place
	Deadline time.Time // when the reader that comes for it first would stall for want of it
	Samples  uint64    // of the chunk, still to be delivered while it is within the horizon
	First    bool      // the reader waits for its first batch
}

// Needs returns what readers need now and soon, each chunk once, ascending by deadline, whether it is in memory or not. The
// deadline is the instant at which the reader would come to the chunk's samples if nothing but its own think time kept it:
// now + (start of the span - the reader's position) / demand. Readers that have gone are forgotten.
func (r *Readers) Needs(now time.Time) []Need {
	r.prepare()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	n := 0
	for _, x := range r.readers {
		n += len(x.queue)
	}
	needs := make([]Need, 0, n)
	for _, x := range r.readers {
		rate := x.demand.rate()
		for _, u := range x.queue {
			needs = append(needs, Need{
				Place:    Place{x.dataset, int(u.Chunk)},
				Deadline: now.Add(takes(u.start-min(x.at.First, u.start), rate)),
				Samples:  u.left(x.at.First),
				First:    !x.served,
			})
		}
	}
	if len(r.readers) > 1 {
		needs = merge(needs)
	}
	return needs
}

// left is how many of the chunk's samples are delivered from a position on.
func (u *use) left(at uint64) uint64 {
	if u.start >= at {
		return u.Samples
	}
	return uint64(math.Ceil(float64(u.Samples) * float64(u.start+u.To-u.From-at) / float64(u.To-u.From)))
}

// merge puts the needs of all readers in order, and leaves one for each chunk.
func merge(needs []Need) []Need {
	slices.SortStableFunc(needs, func(a, b Need) int { return a.Deadline.Compare(b.Deadline) })
	at := make(map[Place]int, len(needs))
	out := needs[:0]
	for _, n := range needs {
		if i, ok := at[n.Place]; ok {
			out[i].Samples = max(out[i].Samples, n.Samples)
			out[i].First = out[i].First && n.First
			continue
		}
		at[n.Place] = len(out)
		out = append(out, n)
	}
	return out
}

// Forget forgets readers that have gone, and with them what only they come for.
func (r *Readers) Forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
}

func (r *Readers) forget(now time.Time) {
	if r.dropIdle(now) {
		r.expect()
		r.stand()
	}
}

// standing is where one reader stands. It never changes.
type standing struct {
	dataset Dataset
	epoch   *shuffle.Epoch
	next    *shuffle.Epoch // nil: not prepared
	at      uint64
	total   uint64 // samples of an epoch
	rate    float64
}

// stand publishes where the readers stand.
func (r *Readers) stand() {
	all := make([]standing, len(r.readers))
	for i, x := range r.readers {
		all[i] = standing{x.dataset, x.at.Epoch, x.next, x.at.First, x.at.Plan.Samples(), x.demand.rate()}
	}
	r.standing.Store(&all)
}

// Next returns when any known reader will need a chunk next, in its epoch or in the next one: the earliest such instant, with
// deadlines as those of Needs. The zero time says that nobody is known to come for it. It takes no lock and
// costs a binary search for each reader.
func (r *Readers) Next(d Dataset, chunk int, now time.Time) time.Time {
	soonest := time.Duration(-1)
	for i := range *r.standing.Load() {
		s := &(*r.standing.Load())[i]
		if s.dataset != d {
			continue
		}
		distance, ok := s.distance(uint64(chunk))
		if !ok {
			continue
		}
		if s.next == nil && distance >= s.total-s.at {
			r.wanted.Store(true)
		}
		if due := takes(distance, s.rate); soonest < 0 || due < soonest {
			soonest = due
		}
	}
	if soonest < 0 {
		return time.Time{}
	}
	return now.Add(soonest)
}

// distance is how many positions lie before a chunk is needed next.
func (s *standing) distance(chunk uint64) (uint64, bool) {
	if span, ok := s.epoch.Next(chunk, s.at); ok {
		return span.From - min(s.at, span.From), true
	}
	rest := s.total - min(s.at, s.total)
	if s.next == nil {
		return rest + s.total/2, true // as good as any until the next epoch is prepared
	}
	span, ok := s.next.Next(chunk, 0)
	return rest + span.From, ok
}

// prepare prepares the next epochs of readers if somebody asked for a use in them: at most one at a time under
// no lock, for that takes long where chunks are many.
func (r *Readers) prepare() {
	if !r.wanted.Swap(false) {
		return
	}
	for {
		x, at := r.unprepared()
		if x == nil {
			return
		}
		next := at.Plan.Epoch(at.Epoch.Number() + 1)
		r.mu.Lock()
		if x.next == nil && x.at.Plan == at.Plan && x.at.Epoch.Number()+1 == next.Number() {
			x.next = next
			r.stand()
		}
		r.mu.Unlock()
	}
}

// unprepared returns a reader whose next epoch is not prepared, and where it stands.
func (r *Readers) unprepared() (*reader, shuffle.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.readers {
		if x.served && x.next == nil {
			return x, x.at
		}
	}
	return nil, shuffle.Cursor{}
}
