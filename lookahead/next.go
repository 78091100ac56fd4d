package lookahead

import (
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// adrift is the part of an epoch by which one reader may get ahead of another, against what their demands let expect, before the
// clock of Next is set anew: a sixty-fourth.
const adrift = 64

// anchor is where a reader stood when the clock of Next was set. Between two such instants the next use of a chunk is the same
// whenever it is asked for, so that whoever has asked for many can compare them.
type anchor struct {
	when time.Time
	at   uint64 // position, counted from epoch 0
	rate float64
}

// standing is where one reader stands. It never changes.
type standing struct {
	anchor
	dataset Dataset
	epoch   *shuffle.Epoch
	next    *shuffle.Epoch // nil: not prepared
	first   uint64
	total   uint64 // samples of an epoch
}

// anchor sets the clock of Next. The caller holds mu, as in what follows.
func (r *Readers) anchor(now time.Time) {
	for _, x := range r.readers {
		x.anchor = anchor{now, x.at.Epoch.Number()*x.at.Plan.Samples() + x.at.First, x.rate()}
	}
	was := r.horizon.Load()
	r.horizon.Store(&Horizon{was.places, was.clock + 1})
}

// stand publishes where the readers stand.
func (r *Readers) stand(now time.Time) {
	if r.adrift() {
		r.anchor(now)
	}
	all := make([]standing, len(r.readers))
	for i, x := range r.readers {
		all[i] = standing{x.anchor, x.dataset, x.at.Epoch, x.next, x.at.First, x.at.Plan.Samples()}
	}
	r.standing.Store(&all)
}

// adrift reports whether some readers have come much farther than others since the clock was set.
func (r *Readers) adrift() bool {
	var least, most, epoch time.Duration
	for i, x := range r.readers {
		came := takes(x.at.Epoch.Number()*x.at.Plan.Samples()+x.at.First-x.anchor.at, x.anchor.rate)
		all := takes(x.at.Plan.Samples(), x.anchor.rate)
		if i == 0 {
			least, most, epoch = came, came, all
		}
		least, most, epoch = min(least, came), max(most, came), min(epoch, all)
	}
	return most-least > epoch/adrift
}

// Next returns when any known reader will need a chunk next, in its epoch or in the next one: the earliest such instant, as
// its demand lets expect; it has passed if the reader is late. The zero time says that nobody is known to come for the chunk. Next
// takes no lock, and costs a binary search or two for each reader. Answers can be compared while the horizon's clock is the same.
func (r *Readers) Next(d Dataset, chunk int) (soonest time.Time) {
	all := *r.standing.Load()
	for i := range all {
		s := &all[i]
		if s.dataset != d {
			continue
		}
		at, ok := s.use(uint64(chunk))
		if !ok {
			continue
		}
		if s.next == nil && at >= (s.epoch.Number()+1)*s.total {
			r.wanted.Store(true)
		}
		due := s.when
		if at > s.at {
			due = due.Add(takes(at-s.at, s.rate))
		}
		if soonest.IsZero() || due.Before(soonest) {
			soonest = due
		}
	}
	return soonest
}

// use returns the position, counted from epoch 0, at which the reader's next use of a chunk begins.
func (s *standing) use(chunk uint64) (uint64, bool) {
	begin := s.epoch.Number() * s.total
	if span, ok := s.epoch.Next(chunk, s.first); ok {
		return begin + span.From, true
	}
	if s.next == nil {
		return begin + s.total + s.total/2, true // as good as any until the next epoch is prepared
	}
	span, ok := s.next.Next(chunk, 0)
	return begin + s.total + span.From, ok
}

// prepare prepares the next epochs of readers if somebody asked for a use in them: at most one at a time under
// no lock, for that takes long where chunks are many.
func (r *Readers) prepare(now time.Time) {
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
			r.anchor(now)
			r.stand(now)
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
