package lookahead

import "time"

// Due returns how long it takes until the first reader comes for a chunk: from where each reader
// stands to where its next use of the chunk begins, at the reader's rate. Never says that no reader
// is known to come. Answers given at about the same moment can be compared; while readers wait, no
// time passes. Due takes no lock, and costs a binary search or two for each reader of the data set.
//
// What a rank behind the foremost one of its reader still needs is due as that rank comes to it.
//
// A use in a later epoch counts as one at a place that is the chunk's own, the same in every epoch,
// and not where the order of that epoch has it. Every chunk is used once there, so the choice of
// what stays does not change how much is read. But the chunks that come first would all stay: the
// next epoch would begin with a rush through memory while the store has nothing to do, and go on
// with nothing but misses. With places of their own, hits come evenly through the epoch, and the
// store works all the time: epochs that the store limits take up to a quarter less.
func (r *Readers) Due(d Dataset, chunk int) time.Duration {
	due := Never
	all := *r.standing.Load()
	for i := range all {
		s := &all[i]
		if s.dataset == d && r.mine(d, s.plan, s.groups, uint64(chunk)) {
			due = min(due, takes(s.until(uint64(chunk)), s.pace))
		}
	}
	return due
}

// until returns how many samples the reader has to go until its next use of a chunk.
func (s *standing) until(chunk uint64) uint64 {
	span, ok := s.epoch.Next(chunk, s.last)
	switch {
	case !ok:
		return s.total - s.first + s.own(chunk)
	case span.To <= s.first: // only ranks behind the foremost one come for it
		return span.From - min(span.From, s.last)
	}
	return span.From - min(span.From, s.first)
}
