// Package timing keeps where the time of a request went, up to its first byte: for the access line, and for the header
// Server-Timing.
package timing

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
)

// Phase is a part of the work on a request, up to the first byte. An answer of many batches goes on after it, and has
// the sums over its batches.
type Phase int

const (
	Resolve Phase = iota // what the address means: subsets, names of parts, keys
	Wait                 // for memory
	Plan                 // which samples they are, and where they lie
	Lay                  // what their body looks like
	Read                 // their bytes; tiers say where those came from
	count
)

// String returns the name of a phase.
func (p Phase) String() string { return [...]string{"resolve", "wait", "plan", "lay", "read"}[p] }

// Record is where the time of one request went. The zero value is ready.
type Record struct {
	Tiers  []chunkindex.TierTime // that the bytes came from
	phases [count]time.Duration
}

// Spent adds the time since start to a phase. At no time do two goroutines of a request work: the one that reads the next
// batch has ended when the other goes on.
func (r *Record) Spent(p Phase, start time.Time) { r.phases[p] += time.Since(start) }

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

// ServerTiming says where the time went before the first byte: each phase, the last of them by tiers.
func (r *Record) ServerTiming() string {
	var b strings.Builder
	add := func(name string, d time.Duration) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name)
		b.WriteString(";dur=")
		b.WriteString(strconv.FormatFloat(Milliseconds(d), 'f', -1, 64))
	}
	for p := range Read {
		if r.phases[p] > 0 || p == Plan {
			add(p.String(), r.phases[p])
		}
	}
	for _, t := range r.Tiers {
		add(t.Tier, t.Wait)
	}
	return b.String()
}

// Each calls visit for every phase that took time.
func (r *Record) Each(visit func(p Phase, d time.Duration)) {
	for p := range count {
		if r.phases[p] > 0 {
			visit(p, r.phases[p])
		}
	}
}
