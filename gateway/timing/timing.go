// Package timing keeps where the time of a request goes: for the header Server-Timing, the access line, the metrics and the
// spans of traces.
package timing

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
)

// Phase is a part of the work on a request.
type Phase int

// The phases, in their order.
const (
	Edge   Phase = iota // what every request has: limits, rights, headers
	Decode              // what the address means: subsets, names of parts, keys
	Wait                // for memory, or for a place to plan in
	Plan                // the plan and its epoch
	Locate              // which samples they are, where they lie, and what their body looks like
	Read                // their bytes; tiers say where those came from
	Send                // the answer, from its first byte on
	count
)

// String returns the name of a phase.
func (p Phase) String() string {
	return [...]string{"edge", "decode", "wait", "plan", "locate", "read", "send"}[p]
}

// Record is where the time of one request goes. At each moment from Begin to End the request is in just one phase, so the
// phases add up to its time. What two goroutines do at once for one request has two records.
type Record struct {
	Tiers []batch.TierTime // that the bytes came from

	start  time.Time
	phase  Phase
	since  time.Duration // from start, when the phase began
	phases [count]time.Duration
	left   func(p Phase, from, to time.Time) // nil: nothing else hears of phases
	untold stretch                           // what left is to hear of next
}

// stretch is a part of a request's time. from and to count from its start.
type stretch struct {
	phase    Phase
	from, to time.Duration
}

// least is how long a stretch is, unless reads surround it, that left hears of by itself. To record and send a span takes
// about 3 microseconds: so spans of phases take a tenth of the time that they tell of at most.
const least = 30 * time.Microsecond

// Begin begins the first phase, Edge, at start. left, unless nil, is called for stretches of phases that are over, one after the
// other and without gaps. A stretch that is too short to tell of belongs to the one before it, or to the one after it.
func (r *Record) Begin(start time.Time, left func(p Phase, from, to time.Time)) {
	r.start, r.left = start, left
}

// Left is what Begin was told to call.
func (r *Record) Left() func(p Phase, from, to time.Time) { return r.left }

// Enter begins a phase, and returns the one that it ends, for Enter again:
//
//	defer r.Leave(r.Enter(timing.Plan))
func (r *Record) Enter(p Phase) (before Phase) {
	now := time.Since(r.start) // reads one clock, where time.Now reads two
	r.end(now)
	before, r.phase, r.since = r.phase, p, now
	return before
}

// Leave goes back to the phase before.
func (r *Record) Leave(before Phase) { r.Enter(before) }

// End ends the last phase, and returns the time since Begin.
func (r *Record) End() (took time.Duration) {
	took = time.Since(r.start)
	r.end(took)
	if r.left != nil {
		r.tell()
	}
	return took
}

func (r *Record) end(now time.Duration) {
	r.phases[r.phase] += now - r.since
	if r.left != nil {
		r.join(stretch{r.phase, r.since, now})
	}
}

// join adds a stretch to the one before it, or tells of that one. A read stays by itself: it has a span of its own.
func (r *Record) join(s stretch) {
	before := &r.untold
	joins := before.phase != Read && s.phase != Read
	switch {
	case joins && (s.phase == before.phase || s.to-s.from < least):
		before.to = s.to
	case joins && before.to-before.from < least:
		before.phase, before.to = s.phase, s.to
	default:
		r.tell()
		r.untold = s
	}
}

// tell tells of the stretch that left has not heard of.
func (r *Record) tell() {
	if s := r.untold; s.from < s.to {
		r.left(s.phase, r.start.Add(s.from), r.start.Add(s.to))
	}
	r.untold = stretch{}
}

// Came adds what tiers have brought.
func (r *Record) Came(tiers []batch.TierTime) {
	for _, t := range tiers {
		i := slices.IndexFunc(r.Tiers, func(have batch.TierTime) bool { return have.Tier == t.Tier })
		if i < 0 {
			r.Tiers = append(r.Tiers, t)
			continue
		}
		r.Tiers[i].Bytes += t.Bytes
		r.Tiers[i].Wait += t.Wait
	}
}

// Milliseconds is a duration in the unit of logs and headers.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ServerTiming says where the time has gone so far: each phase, and after Read the tiers that it is made of.
func (r *Record) ServerTiming() string {
	b := make([]byte, 0, 256)
	add := func(name string, d time.Duration) {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, name...)
		b = append(b, ";dur="...)
		b = appendMilliseconds(b, d)
	}
	now := time.Since(r.start)
	for p, d := range r.phases {
		if Phase(p) == r.phase {
			d += now - r.since
		}
		if d > 0 {
			add(Phase(p).String(), d)
		}
	}
	for _, t := range r.Tiers {
		add(t.Tier, t.Wait)
	}
	return string(b)
}

// appendMilliseconds appends a duration in milliseconds, to the microsecond, as the shortest decimal number: 12.3, not 12.300.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	micros := d.Microseconds()
	b = strconv.AppendInt(b, micros/1000, 10)
	if micros %= 1000; micros == 0 {
		return b
	}
	b = append(b, '.', byte('0'+micros/100), byte('0'+micros/10%10), byte('0'+micros%10))
	return bytes.TrimRight(b, "0")
}

// Each calls visit for every phase that took time.
func (r *Record) Each(visit func(p Phase, d time.Duration)) {
	for p, d := range r.phases {
		if d > 0 {
			visit(Phase(p), d)
		}
	}
}
