package datapath

import (
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// Chunks returns how many chunks the dataset has. Chunks, Cost and Resident are what the table of readers asks of it.
func (s *Source) Chunks() int { return s.index.Chunks() }

// Cost returns the bytes of memory that a chunk takes.
func (s *Source) Cost(chunk int) int64 { return chunkcache.Cost(s.index.Chunk(chunk).Length) }

// Resident reports whether a chunk is in memory, or on its way there.
func (s *Source) Resident(chunk int) bool { return s.path.cache.Contains(s.key(chunk)) }

// marks is what the cache was told of the readers last.
type marks struct {
	mu      sync.Mutex // held while the cache is told: whoever comes last says what is true last
	horizon *lookahead.Horizon
	wanted  map[key]struct{}   // replaced, never changed
	clock   *lookahead.Horizon // the one under which the policy was asked about all chunks
	rest    rest
}

// mark keeps the chunks that readers come for while others can go, and gives up loads that nobody comes for any more.
func (p *Path) mark() {
	m := &p.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	is := p.readers.Horizon()
	if m.horizon == is && is.SameClock(m.clock) {
		return
	}
	begun := time.Now()
	all := !is.SameClock(m.clock) && m.rest.over(begun)
	if m.horizon == is && !all {
		return
	}
	old, wanted := m.wanted, make(map[key]struct{}, len(m.wanted))
	for at := range is.All() {
		wanted[at.Dataset.(*Source).key(at.Chunk)] = struct{}{}
	}
	m.horizon, m.wanted = is, wanted
	soon := func(k key) bool { _, ok := wanted[k]; return ok }
	if all {
		p.cache.SetWarm(soon)
		m.clock = is
		m.rest.after(begun, time.Now())
	} else {
		p.cache.Rewarm(soon, changed(old, wanted))
	}
	p.flights.keep(is)
}

// restFor is for how many times as long as it took something rests that everybody has to wait for: so of a core's time it
// takes a twentieth at most, however often there is a reason for it.
const restFor = 20

// rest is until when.
type rest struct{ until time.Time }

func (r *rest) over(now time.Time) bool { return !now.Before(r.until) }

func (r *rest) after(begun, ended time.Time) { r.until = ended.Add(restFor * ended.Sub(begun)) }

// changed returns the keys that are in one set and not in the other.
func changed(a, b map[key]struct{}) []key {
	var out []key
	for _, pair := range [2][2]map[key]struct{}{{a, b}, {b, a}} {
		for k := range pair[0] {
			if _, both := pair[1][k]; !both {
				out = append(out, k)
			}
		}
	}
	return out
}
