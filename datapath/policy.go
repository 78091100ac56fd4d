package datapath

import (
	"slices"
	"sync"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// Policy names the rule by which chunks go that no reader comes for soon.
type Policy string

// The policies.
const (
	PolicyPlan Policy = "plan" // the one whose next use by any known reader is furthest away
	PolicyLRU  Policy = "lru"  // the one that was used longest ago
	PolicyKeep Policy = "keep" // the one that came last, so that what is there stays
)

// Policies returns all of them, the default first.
func Policies() []Policy { return []Policy{PolicyPlan, PolicyLRU, PolicyKeep} }

// of returns what makes the policy, where next says when a chunk is needed next.
func (p Policy) of(next func(key) int64) func() chunkcache.Policy[key] {
	switch p {
	case PolicyLRU:
		return chunkcache.NewLRU[key]
	case PolicyKeep:
		return chunkcache.NewKeep[key]
	}
	return func() chunkcache.Policy[key] { return chunkcache.NewPlan(next) }
}

// nextUse returns when a chunk in memory is needed next, for the policy: an instant, or for those within the horizon, which the cache keeps
// apart from the others, just their order. It runs under the cache's lock.
func (p *Path) nextUse(k key) int64 {
	soonest := int64(chunkcache.Never)
	horizon := p.readers.Horizon()
	for _, h := range p.homes.of(k) {
		if order, ok := horizon.Order(h.source, h.chunk); ok {
			soonest = min(soonest, int64(order))
		} else if t := p.readers.Next(h.source, h.chunk); !t.IsZero() {
			soonest = min(soonest, t.UnixNano())
		}
	}
	return soonest
}

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
