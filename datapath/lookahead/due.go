package lookahead

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// Never is the time until the next use of a chunk that no known reader needs.
const Never = time.Duration(math.MaxInt64)

// behindDue is the due time of a chunk that only slower ranks still need. Such a chunk is due after
// the chunks that the fastest rank needs now, and before those that it needs soon.
const behindDue = 1

// position is the position of one reader, with its demand.
type position struct {
	plan      *shuffle.Plan
	epoch     *shuffle.Epoch
	next      *shuffle.Epoch // epoch after the current one, if the reader needs chunks of it soon; otherwise nil
	first     uint64         // position of the fastest rank's batch in the epoch
	last      uint64         // position of the slowest rank in the same epoch
	total     uint64         // number of samples in an epoch
	soon      uint64         // number of samples after first within which chunks are needed soon
	rate      float64
	straggler bool // a slower rank is known to exist
	groups    groups
}

// comesFor reports whether the reader needs a chunk from this gateway. A nil position means that
// the reader has ended.
func (s *position) comesFor(chunk uint64) bool { return s != nil && s.groups.comeFor(s.plan, chunk) }

// NextUse describes when readers need a chunk next.
type NextUse struct {
	In      time.Duration // time until the first reader needs it; Never: no known reader does
	Soon    bool          // a reader needs it soon: if it is missing, Missing yields it
	Samples uint64        // samples of the chunk that readers will take soon, as far as known
}

// NextUse returns when readers need a chunk next: the number of samples from each reader's position
// to its next use of the chunk, divided by the reader's rate. Results from about the same moment
// can be compared; no time passes while readers wait. NextUse takes no lock, and costs one or two
// binary searches for each reader.
//
// A chunk that only slower ranks of a reader still need is due almost immediately (behindDue). It
// is in memory, and reading it again would cost a store read from which the fastest rank gains
// nothing. A reader without a known slower rank may still have one. Then the chunk is due after the
// chunks that are needed soon.
//
// A use in a later epoch counts at a fixed position that is specific to the chunk, and not at its
// position in the order of that epoch. Every chunk is used once per epoch, so this does not change
// how much is read. With the real order the cache would keep the chunks that are needed first. The
// next epoch would begin with a series of hits while the store is idle, and continue with misses
// only. With fixed positions the hits are spread evenly over the epoch, and the store is busy all
// the time: store-bound epochs are up to a quarter shorter.
func (r *Readers) NextUse(d Dataset, chunk int) NextUse {
	return r.NextUseAfter(d, chunk, NextUse{Soon: true, In: -1})
}

// NextUseAfter is like NextUse, but stops at the first reader whose use is not later than enough.
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
		if next.note(readers[i].position.Load(), uint64(chunk)); before.later(next) {
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

// later reports whether a use is later than another; uses that are needed soon come before all
// others.
func (u NextUse) later(than NextUse) bool {
	if u.Soon != than.Soon {
		return than.Soon
	}
	return u.In > than.In
}

// note merges the next use of one reader into n.
func (n *NextUse) note(s *position, chunk uint64) {
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

// use returns the first use of a chunk that ends after a position, in this epoch, or in the next
// one if it is needed soon there. Otherwise it returns a use at the chunk's fixed position (own),
// which is not needed soon.
func (s *position) use(chunk, from uint64) use {
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

// own returns the fixed position of a chunk that counts in later epochs. The golden ratio spreads
// these positions evenly.
func (s *position) own(chunk uint64) uint64 {
	at, _ := bits.Mul64((chunk+1)*0x9e3779b97f4a7c15, s.total)
	return at
}

// NextRead returns the time until a chunk must be read from a tier behind memory: the time of its
// next use or, if again is set because the chunk is in memory, of the use after that. In later
// epochs the chunks' fixed positions count from the other end than in NextUse, so that the disk
// keeps other chunks than memory does.
func (r *Readers) NextRead(d Dataset, chunk int, again bool) time.Duration {
	first, second := Never, Never
	readers := (*r.known.Load())[d]
	if len(readers) > 0 && (r.cfg.Mine == nil || r.cfg.Mine(d, chunk)) {
		for _, x := range readers {
			s := x.position.Load()
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

// uses returns the starts of the reader's next two uses of a chunk, in samples after its position.
func (s *position) uses(chunk uint64) (samples [2]uint64) {
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

// ComesFor reports whether the reader needs a chunk from this gateway, as far as known. It returns
// false for a chunk whose home is with ranks that read at other gateways. The reader takes only a
// few samples of such a chunk, different ones in each epoch.
func (v *Visit) ComesFor(chunk int) bool {
	s := v.position()
	return s == nil || s.comesFor(uint64(chunk))
}

// comeFor reports whether one of the groups is a home of samples of a chunk.
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
