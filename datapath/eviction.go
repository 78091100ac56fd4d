package datapath

import (
	"slices"
	"sync"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// Policy names the rule by which chunks go that no reader comes for soon.
type Policy string

// The policies.
const (
	PolicyPlan Policy = "plan" // the one that is due last, by all readers that are known
	PolicyLRU  Policy = "lru"  // the one that was used longest ago
)

// Policies returns all of them, the default first.
func Policies() []Policy { return []Policy{PolicyPlan, PolicyLRU} }

// due says when a chunk in memory is needed next, as the cache asks before it lets one go. It runs
// under the cache's lock.
func (p *Path) due(k key) int64 {
	due := int64(chunkcache.Never)
	for _, h := range p.homes.of(k) {
		due = min(due, h.source.due(h.chunk))
	}
	return due
}

// due says when readers of the data set need a chunk next: the time until one comes soon,
// and beyond chunkcache.Soon the time until one comes later, which counts only where chunks go by the plan.
func (s *Source) due(chunk int) int64 {
	c := s.path.readers.Coming(s, chunk)
	switch {
	case c.Soon:
		return min(int64(c.Due), chunkcache.Soon-1)
	case c.Due == lookahead.Never || s.path.cfg.Policy == PolicyLRU:
		return chunkcache.Never
	}
	return chunkcache.Soon + 1 + int64(c.Due)
}

// gone notes that a chunk is not in memory any more, or has not come.
func (p *Path) gone(k key) {
	for _, h := range p.homes.of(k) {
		if p.readers.Lost(h.source, h.chunk) {
			p.look()
		}
	}
	p.homes.drop(k)
}

// Chunks returns how many chunks the dataset has. Chunks, Cost and Resident are what the table of readers asks of it.
func (s *Source) Chunks() int { return s.index.Chunks() }

// Cost returns the bytes of memory that a chunk takes.
func (s *Source) Cost(chunk int) int64 { return chunkcache.Cost(s.index.Chunk(chunk).Length) }

// Resident reports whether a chunk is in memory, or on its way there.
func (s *Source) Resident(chunk int) bool { return s.path.cache.Contains(s.key(chunk)) }

// homes knows of the chunks in memory, and on their way there, which datasets they belong to. Nobody calls the cache while
// holding its lock, for the cache calls it under its own.
type homes struct {
	mu    sync.Mutex // guards where
	where map[key][]home
}

type home struct {
	source *Source
	chunk  int
}

// add notes a chunk that is on its way.
func (h *homes) add(k key, s *Source, chunk int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.where == nil {
		h.where = map[key][]home{}
	}
	h.note(k, home{s, chunk})
}

// also notes another name of a chunk that is known already: one that is not would never be forgotten.
func (h *homes) also(k key, s *Source, chunk int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.where[k]) > 0 {
		h.note(k, home{s, chunk})
	}
}

// names is how many names of the same bytes are remembered.
const names = 8

func (h *homes) note(k key, at home) {
	if all := h.where[k]; len(all) < names && !slices.Contains(all, at) {
		h.where[k] = append(all, at)
	}
}

// drop forgets a chunk that is not in memory any more.
func (h *homes) drop(k key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.where, k)
}

// of returns the names of a chunk. The list may be added to, and is never changed otherwise.
func (h *homes) of(k key) []home {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.where[k]
}

// all returns one name of each chunk.
func (h *homes) all() []home {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]home, 0, len(h.where))
	for _, names := range h.where {
		out = append(out, names[0])
	}
	return out
}
