package lookahead

import (
	"math/bits"
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
	number  uint64
	plan    *shuffle.Plan
	epoch   *shuffle.Epoch
	first   uint64
	last    uint64 // where the rank stands that is the last of the reader's, in this epoch
	total   uint64 // samples of an epoch
	pace    float64
	groups  groups
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
		all[i] = standing{x.anchor, x.dataset, x.number, x.at.Plan, x.at.Epoch, x.at.First, x.last(), x.at.Plan.Samples(), x.rate(), x.groups}
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

// Next returns when any known reader will need a chunk next, in its epoch or in a later one: the earliest such instant, as
// its demand lets expect; it has passed if the reader is late. The zero time says that nobody is known to come for the chunk. Next
// takes no lock, and costs a binary search or two for each reader. Answers can be compared while the horizon's clock is the same.
//
// A use in a later epoch counts as one at a place that is the chunk's own, the same in every epoch, and not where the
// order of that epoch has it. Every chunk is used once there, so what stays does not change how much is read; but the
// chunks that come first would all stay, the next epoch would begin with a rush through memory while the store has
// nothing to do, and go on with nothing but misses. Kept by places of their own, hits come evenly through the epoch,
// and the store works all the time: predicted and measured, epochs that the store limits take up to a quarter less.
func (r *Readers) Next(d Dataset, chunk int) (soonest time.Time) {
	all := *r.standing.Load()
	for i := range all {
		s := &all[i]
		if s.dataset != d || !r.mine(d, s.plan, s.groups, uint64(chunk)) {
			continue
		}
		due := s.when
		if at := s.use(uint64(chunk)); at > s.at {
			due = due.Add(takes(at-s.at, s.rate))
		}
		if soonest.IsZero() || due.Before(soonest) {
			soonest = due
		}
	}
	return soonest
}

// use returns the position, counted from epoch 0, at which the reader's next use of a chunk begins.
func (s *standing) use(chunk uint64) uint64 {
	begin := s.epoch.Number() * s.total
	if span, ok := s.epoch.Next(chunk, s.first); ok {
		return begin + span.From
	}
	return begin + s.total + s.own(chunk)
}

// own is the place of a chunk that counts in later epochs: spread evenly over the chunks by the golden ratio.
func (s *standing) own(chunk uint64) uint64 {
	at, _ := bits.Mul64((chunk+1)*0x9e3779b97f4a7c15, s.total)
	return at
}
