package lookahead

import (
	"math"
	"time"
)

// Never is the distance of a chunk that nobody is known to come for.
const Never = time.Duration(math.MaxInt64)

// Distance returns how long it is until any known reader needs a chunk, at its demand and from where it stands. Unlike an
// instant of Next it does not pass while a reader is kept waiting. For a chunk that is in memory for its next use, again asks
// for the one after that. Distance takes no lock.
func (r *Readers) Distance(d Dataset, chunk int, again bool) time.Duration {
	first, second := Never, Never
	all := *r.standing.Load()
	for i := range all {
		s := &all[i]
		if s.dataset != d || !r.mine(d, s.plan, s.groups, uint64(chunk)) {
			continue
		}
		for _, at := range s.uses(uint64(chunk)) {
			left := takes(at-s.epoch.Number()*s.total-s.first, s.rate)
			first, second = min(first, left), min(second, max(first, left))
		}
	}
	if again {
		return second
	}
	return first
}

// uses returns the positions, counted from epoch 0, of the reader's next two uses of a chunk. In later epochs the chunks' own places
// count from the other end than in Next, so that what is kept behind memory is not what memory keeps.
func (s *standing) uses(chunk uint64) (at [2]uint64) {
	begin, n := s.epoch.Number()*s.total, 0
	for from := s.first; n < 2; n++ {
		span, ok := s.epoch.Next(chunk, from)
		if !ok {
			break
		}
		at[n] = begin + max(span.From, s.first)
		from = span.To
	}
	for epoch := uint64(1); n < 2; epoch, n = epoch+1, n+1 {
		at[n] = begin + (epoch+1)*s.total - s.own(chunk)
	}
	return at
}
