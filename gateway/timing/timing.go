// Package timing keeps where the time of a request goes: for the header Server-Timing, the access line, the metrics and the
// spans of traces.
package timing

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
)

// Phase is a part of the work on a request.
type Phase int

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
	Tiers []chunkindex.TierTime // that the bytes came from

	start  time.Time
	phase  Phase
	since  time.Duration // from start, when the phase began
	phases [count]time.Duration
	left   func(p Phase, from, to time.Time) // nil: nothing else hears of phases
}

// Begin begins the first phase, Edge, at start. left, unless nil, is called for each stretch of a phase when it is over.
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
	return took
}

func (r *Record) end(now time.Duration) {
	r.phases[r.phase] += now - r.since
	if r.left != nil {
		r.left(r.phase, r.start.Add(r.since), r.start.Add(now))
	}
}

// Came adds what tiers have brought.
func (r *Record) Came(tiers []chunkindex.TierTime) {
	for _, t := range tiers {
		i := slices.IndexFunc(r.Tiers, func(have chunkindex.TierTime) bool { return have.Tier == t.Tier })
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
