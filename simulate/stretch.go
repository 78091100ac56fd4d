package simulate

import (
	"math"

	"github.com/millrace-data/millrace/shuffle"
)

// stretch is where a rank stands, and which samples of its next batches are asked for in the background, as in the data path: one
// stretch after another, each from where the one before it ends. While the rank consumes one, the next one is on its way.
type stretch struct {
	at     shuffle.Cursor // the last batch that the rank asked for
	begins uint64         // first position of the batch in which the last stretch begins
	due    uint64         // once the rank is there, the next one is due
	next   uint64         // first position of the batch in which the next one begins; none does past the end
	skip   int            // samples of that batch that are in the last one
	number int            // so far in this epoch
}

// come notes a batch.
func (s *stretch) come(at shuffle.Cursor) {
	if s.at.Epoch == nil || at.Epoch.Number() > s.at.Epoch.Number() {
		s.next, s.number = 0, 0
	}
	s.at = at
	if s.next <= at.First { // it has overtaken what was asked for
		s.begins, s.due, s.next, s.skip = at.First, at.First, at.First+at.BatchSize, 0
	}
}

// ready reports whether the next stretch is due.
func (s *stretch) ready() bool {
	return s.at.Epoch != nil && s.at.First >= s.due && s.next < s.at.Plan.Samples()
}

// batches is how many the next stretch may cover: few at first, since the rank waits for them, and few in the end.
func (s *stretch) batches() int {
	left := (s.at.Plan.Samples() - s.next + s.at.BatchSize - 1) / s.at.BatchSize
	return min(2<<min(s.number, 8), carriedAhead, max(int(left+1)/2, 2))
}

// on goes on by a stretch, and hands its samples out with the first position of their batch, until one is refused or it is long enough.
func (s *stretch) on(add func(sample, first uint64) bool) {
	begins, batches := s.next, s.batches()
	defer func() { s.begins, s.due, s.number = begins, s.begins+(begins-s.begins)/2, s.number+1 }()
	for range batches {
		samples, ok := s.at.Later(nil, (s.next-s.at.First)/s.at.BatchSize)
		if !ok {
			s.next, s.skip = math.MaxUint64, 0
			return
		}
		for ; s.skip < len(samples); s.skip++ {
			if !add(samples[s.skip], s.next) {
				return
			}
		}
		s.next, s.skip = s.next+s.at.BatchSize, 0
	}
}

// heard returns where an owner is told that the rank stands.
func (s *stretch) heard() uint64 {
	if s.at.First-s.due > carriedAhead*s.at.BatchSize {
		return s.at.First
	}
	return s.due / s.at.BatchSize * s.at.BatchSize
}
