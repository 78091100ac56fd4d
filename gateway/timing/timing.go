// Package timing records the duration of each phase of a request, for Server-Timing, the access
// log, the metrics and trace spans.
package timing

import (
	"slices"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
)

// Phase is a part of the work on a request.
type Phase int

// The phases, in order.
const (
	Edge   Phase = iota // work common to all requests: limits, rights, headers
	Decode              // decoding of the address: subsets, field names, keys
	Wait                // waiting for memory or a planning place
	Plan                // computing the plan and its epoch
	Locate              // locating the samples and laying out the body
	Read                // reading bytes; tiers are recorded separately
	Send                // sending the response, from its first byte
	count
)

// String returns the name of a phase.
func (p Phase) String() string {
	return [...]string{"edge", "decode", "wait", "plan", "locate", "read", "send"}[p]
}

// Record records the phases of a request. From Begin to End the request is always in exactly one
// phase, so the phases add up to its total time. Concurrent work on one request needs a separate
// Record.
type Record struct {
	Tiers []batch.TierTime // tiers that supplied the bytes

	start  time.Time
	phase  Phase
	since  time.Duration // start of the phase, relative to start
	phases [count]time.Duration
	left   func(p Phase, from, to time.Time) // receives finished phases; nil: not reported
	untold stretch                           // the next stretch to report
}

// stretch is a part of a request's time, relative to its start.
type stretch struct {
	phase    Phase
	from, to time.Duration
}

// least is the minimum length of a stretch that is reported separately, unless reads surround it.
// Recording and sending a span takes about 3 microseconds, so spans add at most a tenth to the time
// that they report.
const least = 30 * time.Microsecond

// Begin starts the first phase, Edge, at start. left, unless nil, is called for finished stretches
// in order and without gaps. A stretch that is too short to report is merged into an adjacent one.
func (r *Record) Begin(start time.Time, left func(p Phase, from, to time.Time)) {
	r.start, r.left = start, left
}

// Left returns the function that was passed to Begin.
func (r *Record) Left() func(p Phase, from, to time.Time) { return r.left }

// Enter starts a phase and returns the previous one, for Leave:
//
//	defer r.Leave(r.Enter(timing.Plan))
func (r *Record) Enter(p Phase) (before Phase) {
	now := time.Since(r.start) // reads one clock; time.Now reads two clocks
	r.end(now)
	before, r.phase, r.since = r.phase, p, now
	return before
}

// Leave returns to the previous phase.
func (r *Record) Leave(before Phase) { r.Enter(before) }

// End ends the last phase and returns the time since Begin.
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

// join merges a stretch into the previous one, or reports the previous one. A read is never merged,
// because it has its own span.
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

// tell reports the pending stretch.
func (r *Record) tell() {
	if s := r.untold; s.from < s.to {
		r.left(s.phase, r.start.Add(s.from), r.start.Add(s.to))
	}
	r.untold = stretch{}
}

// Came adds the bytes and waits of tiers.
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

// Milliseconds returns a duration in the unit of logs and headers.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ServerTiming returns the times so far: each phase, then the tiers of the read phase.
func (r *Record) ServerTiming() string {
	b := make([]byte, 0, 256)
	add := func(name string, d time.Duration) {
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, name...)
		b = append(b, ";dur="...)
		b = strconv.AppendFloat(b, Milliseconds(d), 'f', -1, 64)
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

// Each calls visit for every phase with a duration.
func (r *Record) Each(visit func(p Phase, d time.Duration)) {
	for p, d := range r.phases {
		if d > 0 {
			visit(Phase(p), d)
		}
	}
}
