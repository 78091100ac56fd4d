package datapath

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// populate maps memory for chunks, as much as prefetching may use, until the first reader arrives.
// It maps the memory in small steps, so that no request waits for it.
func (p *Path) populate(ctx context.Context) {
	p.mu.Lock()
	sources := slices.Clone(p.open)
	p.mu.Unlock()
	room := policy.Ahead(p.budget.Total()) - p.budget.InUse()
	for _, s := range sources {
		if s.enter() {
			room = s.populate(ctx, room)
			s.leave()
		}
	}
}

// populate maps memory for the chunks of one source, as far as there is room. It returns the
// remaining room, or -1 to stop.
func (s *Source) populate(ctx context.Context, room int64) int64 {
	p := s.path
	for i := range s.index.Chunks() {
		n := s.index.Length(i)
		room -= chunkcache.Cost(n)
		if room < 0 || ctx.Err() != nil || s.uses.closing.Err() != nil || len(p.kick) > 0 || !p.cache.Populate(n) {
			return -1
		}
	}
	return room
}
