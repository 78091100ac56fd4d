package lookahead

import (
	"math"
	"math/bits"
	"sync"
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

// Coming says what readers come for a chunk.
type Coming struct {
	Due     time.Duration // until the first of them does; Never: none is known to come
	Soon    bool          // some reader does so soon: its chunk is among the needs, or would be if it were missing
	Samples uint64        // of the chunk that readers take soon, as far as is known
}

// readersOf are the readers of one plan.
type readersOf struct {
	all []*reader // guarded by the table's lock

	mu     sync.Mutex // guards what follows, and is held for moments: who asks when chunks are due holds up others
	stands []standing // of the readers, in the same order
}

// Due returns how long it takes until the first reader comes for a chunk: from where each reader
// stands to where its next use of the chunk begins, at the reader's rate. Never says that no reader
// is known to come. Answers given at about the same moment can be compared; while readers wait, no
// time passes. Due does not wait for the table, and costs a binary search or two for each plan that is read.
//
// What a rank behind the foremost one of its reader still needs is due next to at once (behindDue):
// it is there, and to bring it again would cost a read that the reader ahead gains nothing from. Where
// no rank is known to be behind, one may be all the same: then it is due after what is needed soon.
//
// A use in a later epoch counts as one at a place that is the chunk's own, the same in every epoch,
// and not where the order of that epoch has it. Every chunk is used once there, so the choice of
// what stays does not change how much is read. But the chunks that come first would all stay: the
// next epoch would begin with a rush through memory while the store has nothing to do, and go on
// with nothing but misses. With places of their own, hits come evenly through the epoch, and the
// store works all the time: epochs that the store limits take up to a quarter less.
func (r *Readers) Due(d Dataset, chunk int) time.Duration { return r.Coming(d, chunk).Due }

// Expected reports whether some reader comes for a chunk soon.
func (r *Readers) Expected(d Dataset, chunk int) bool {
	return r.First(d, chunk, Coming{Soon: true, Due: Never}).Soon
}

// Coming returns what Due returns, and what readers take of the chunk soon.
func (r *Readers) Coming(d Dataset, chunk int) Coming {
	return r.First(d, chunk, Coming{Soon: true, Due: -1})
}

// First returns what Coming returns, if that is later than enough. If not, it stops at the first reader that comes by then.
func (r *Readers) First(d Dataset, chunk int, enough Coming) Coming {
	c := Coming{Due: Never}
	plans := (*r.known.Load())[d]
	if len(plans) == 0 || r.cfg.Mine != nil && !r.cfg.Mine(d, chunk) {
		return c
	}
	hint := &r.soonest[chunk%len(r.soonest)]
	begin := int(hint.Load()) % len(plans)
	first := begin
	for n := range plans {
		i := (begin + n) % len(plans)
		before := c
		if plans[i].first(&c, uint64(chunk), enough); before.later(c) {
			first = i
		}
		if !c.later(enough) {
			break
		}
	}
	if first != begin {
		hint.Store(uint32(first))
	}
	return c
}

// later reports whether a chunk is due later than another one: those that are due soon come before all others.
func (c Coming) later(than Coming) bool {
	if c.Soon != than.Soon {
		return than.Soon
	}
	return c.Due > than.Due
}

// first adds the readers of one plan, until one comes early enough.
func (p *readersOf) first(c *Coming, chunk uint64, enough Coming) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var uses uses
	for i := range p.stands {
		s := &p.stands[i]
		if !s.groups.comeFor(s.plan, chunk) {
			continue
		}
		span, ok := uses.next(s, chunk)
		if c.note(s, chunk, span, ok); !c.later(enough) {
			return
		}
	}
}

// note adds one reader. ok says that the span is the chunk's next one of its epoch.
func (c *Coming) note(s *standing, chunk uint64, span shuffle.Span, ok bool) {
	u := use{Span: span, start: span.From}
	if !ok {
		u.start = s.total + s.own(chunk)
		if s.next != nil {
			if span, ok := s.next.Next(chunk, 0); ok && s.total+span.From < s.first+s.soon {
				u = use{Span: span, start: s.total + span.From}
			}
		}
	}
	samples := u.start - min(u.start, s.first)
	behind := ok && span.To <= s.first
	if behind && !s.straggler {
		samples = s.soon
	}
	due := takes(samples, s.rate)
	if behind && s.straggler {
		due = behindDue
	}
	c.Due = min(c.Due, due)
	if samples < s.soon {
		c.Soon = true
		c.Samples += u.left(s.first)
	}
}

// uses remembers the spans of one chunk in one epoch, for the readers of one plan that are there.
type uses struct {
	epoch *shuffle.Epoch
	from  uint64 // no span is remembered that ends before this position
	spans []shuffle.Span
	all   bool // there are no more
	array [4]shuffle.Span
}

// next returns the chunk's first span that ends after the position of the reader's last rank.
func (u *uses) next(s *standing, chunk uint64) (shuffle.Span, bool) {
	switch {
	case u.epoch == nil || u.epoch.Number() != s.epoch.Number():
		u.epoch, u.from, u.spans, u.all = s.epoch, s.last, u.array[:0], false
	case s.last < u.from:
		u.from, u.spans, u.all = 0, u.array[:0], false
	}
	for _, span := range u.spans {
		if span.To > s.last {
			return span, true
		}
	}
	for !u.all {
		after := u.from
		if n := len(u.spans); n > 0 {
			after = u.spans[n-1].To
		}
		span, ok := s.epoch.Next(chunk, after)
		if !ok {
			u.all = true
			break
		}
		if u.spans = append(u.spans, span); span.To > s.last {
			return span, true
		}
	}
	return shuffle.Span{}, false
}

// own is the place of a chunk that counts in later epochs: spread evenly over the chunks by the
// golden ratio.
func (s *standing) own(chunk uint64) uint64 {
	at, _ := bits.Mul64((chunk+1)*0x9e3779b97f4a7c15, s.total)
	return at
}

// Distance returns how long it takes until a chunk has to be read from behind memory: until the first
// reader comes for it or, of a chunk that is in memory for that, until the next one does. In later
// epochs the chunks' own places count from the other end than in Due, so that what is kept behind
// memory is not what memory keeps.
func (r *Readers) Distance(d Dataset, chunk int, again bool) time.Duration {
	first, second := Never, Never
	if r.cfg.Mine == nil || r.cfg.Mine(d, chunk) {
		for _, p := range (*r.known.Load())[d] {
			p.distance(uint64(chunk), &first, &second)
		}
	}
	if again {
		return second
	}
	return first
}

func (p *readersOf) distance(chunk uint64, first, second *time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.stands {
		s := &p.stands[i]
		if !s.groups.comeFor(s.plan, chunk) {
			continue
		}
		for _, samples := range s.uses(chunk) {
			left := takes(samples, s.rate)
			*first, *second = min(*first, left), min(*second, max(*first, left))
		}
	}
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
