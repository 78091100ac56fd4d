package lookahead

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Never is how long it takes until a reader comes where none is known to come.
const Never = time.Duration(math.MaxInt64)

// behindDue is when a chunk is due that only ranks behind the foremost one of their reader still
// need: after what that one needs now, before what it needs soon.
const behindDue = 1

// standing is where one reader stands.
type standing struct {
	plan      *shuffle.Plan
	epoch     *shuffle.Epoch
	next      *shuffle.Epoch // the one after it, where the reader needs chunks of it soon; else nil
	first     uint64         // position of the foremost rank's batch, in the epoch
	last      uint64         // position of the rank that is the last one, in the same epoch
	total     uint64         // samples of an epoch
	soon      uint64         // samples after first: what the reader needs within these, it needs soon
	rate      float64
	straggler bool // some rank is known to be behind the foremost one
	groups    groups
}

// comesFor reports whether the reader comes here for a chunk; a nil one has gone.
func (s *standing) comesFor(chunk uint64) bool { return s != nil && s.groups.comeFor(s.plan, chunk) }

// NextUse says when readers need a chunk next.
type NextUse struct {
	In      time.Duration // until the first of them does; Never: no reader is known to need it
	Soon    bool          // some reader does so soon: its chunk is among the needs, or would be if it were missing
	Samples uint64        // of the chunk that readers take soon, as far as is known
}

// NextUse returns when readers need a chunk next: from where each reader stands to where its next use of the chunk begins, at the
// reader's rate. Answers given at about the same moment can be compared; while readers wait, no time passes. NextUse does not wait
// for the table, and costs a binary search or two for each reader.
//
// A chunk that only a rank behind the foremost one of its reader still needs is due next to at once (behindDue): it is there, and to bring it
// again would cost a read that the reader ahead gains nothing from. Where no rank is known to be behind, one may be all the same: then it is due
// after the chunks that are needed soon.
//
// A use in a later epoch counts as one at a place that is the chunk's own, the same in every epoch,
// and not where the order of that epoch has it. Every chunk is used once there, so the choice of
// what stays does not change how much is read. But the chunks that come first would all stay: the
// next epoch would begin with a rush through memory while the store has nothing to do, and go on
// with nothing but misses. With places of their own, hits come evenly through the epoch, and the
// store works all the time: epochs that the store limits take up to a quarter less.
func (r *Readers) NextUse(d Dataset, chunk int) NextUse {
	return r.NextUseAfter(d, chunk, NextUse{Soon: true, In: -1})
}

// NextUseAfter returns the next use if that is later than enough. If not, it stops at the first reader that comes by then.
func (r *Readers) NextUseAfter(d Dataset, chunk int, enough NextUse) NextUse {
	next := NextUse{In: Never}
	readers := (*r.known.Load())[d]
	if len(readers) == 0 || r.cfg.Mine != nil && !r.cfg.Mine(d, chunk) {
		return next
	}
	hint := &r.soonest[chunk%len(r.soonest)]
	begin := int(hint.Load()) % len(readers)
	first := begin
	for n := range readers {
		i := (begin + n) % len(readers)
		before := next
		if next.note(readers[i].stands.Load(), uint64(chunk)); before.later(next) {
			first = i
		}
		if !next.later(enough) {
			break
		}
	}
	if first != begin {
		hint.Store(uint32(first))
	}
	return next
}

// later reports whether one use is later than another one: those that are soon come before all others.
func (u NextUse) later(than NextUse) bool {
	if u.Soon != than.Soon {
		return than.Soon
	}
	return u.In > than.In
}

// note adds what one reader comes for.
func (n *NextUse) note(s *standing, chunk uint64) {
	if !s.comesFor(chunk) {
		return
	}
	u := s.use(chunk, s.last)
	behind := u.end() <= s.first
	passed := behind && !s.straggler
	if passed {
		u = s.use(chunk, s.first)
	}
	samples := u.start - min(u.start, s.first)
	if passed {
		samples = min(samples, s.soon)
	}
	due := takes(samples, s.rate)
	if behind && s.straggler {
		due = behindDue
	}
	n.In = min(n.In, due)
	if samples < s.soon {
		n.Soon = true
		n.Samples += u.left(s.first)
	}
}

// use returns the first use of a chunk that ends after a position: in this epoch, in the next one if it is needed soon there, or else in
// the chunk's own place, which is not soon.
func (s *standing) use(chunk, from uint64) use {
	if span, ok := s.epoch.Next(chunk, from); ok {
		return use{Span: span, start: span.From}
	}
	if s.next != nil {
		if span, ok := s.next.Next(chunk, 0); ok && s.total+span.From < s.first+s.soon {
			return use{Span: span, start: s.total + span.From}
		}
	}
	return use{start: max(s.total+s.own(chunk), s.first+s.soon)}
}

// own is the place of a chunk that counts in later epochs: spread evenly over the chunks by the
// golden ratio.
func (s *standing) own(chunk uint64) uint64 {
	at, _ := bits.Mul64((chunk+1)*0x9e3779b97f4a7c15, s.total)
	return at
}

// NextRead returns how long it takes until a chunk has to be read from behind memory: until the first
// reader comes for it or, of a chunk that is in memory for that, until the next one does. In later
// epochs the chunks' own places count from the other end than in NextUse, so that what is kept behind
// memory is not what memory keeps.
func (r *Readers) NextRead(d Dataset, chunk int, again bool) time.Duration {
	first, second := Never, Never
	readers := (*r.known.Load())[d]
	if len(readers) > 0 && (r.cfg.Mine == nil || r.cfg.Mine(d, chunk)) {
		for _, x := range readers {
			s := x.stands.Load()
			if !s.comesFor(uint64(chunk)) {
				continue
			}
			for _, samples := range s.uses(uint64(chunk)) {
				left := takes(samples, s.rate)
				first, second = min(first, left), min(second, max(first, left))
			}
		}
	}
	if again {
		return second
	}
	return first
}

// uses returns how many samples the reader has to go until its next two uses of a chunk.
func (s *standing) uses(chunk uint64) (samples [2]uint64) {
	n := 0
	for from := s.first; n < 2; n++ {
		span, ok := s.epoch.Next(chunk, from)
		if !ok {
			break
		}
		samples[n] = max(span.From, s.first) - s.first
		from = span.To
	}
	for end := 2 * s.total; n < 2; end, n = end+s.total, n+1 {
		samples[n] = end - s.own(chunk) - s.first
	}
	return samples
}

// ComesFor reports whether the reader comes here for a chunk, as far as is known: not for one whose samples are at home with
// ranks that read at other gateways. Of such a chunk it takes a few samples at most, in each epoch other ones.
func (v *Visit) ComesFor(chunk int) bool {
	s := v.stands()
	return s == nil || s.comesFor(uint64(chunk))
}

// comeFor reports whether samples of a chunk are at home with one of the groups.
func (g groups) comeFor(p *shuffle.Plan, chunk uint64) bool {
	if len(g) == 0 {
		return true
	}
	first, last, ok := p.HomeGroups(chunk, g[0].of)
	if !ok {
		return true
	}
	return slices.ContainsFunc(g, func(g group) bool { return first <= g.number && g.number <= last })
}
