package datapath

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// populate maps memory for the chunks, as much as may be used ahead, until the first reader comes: piece by piece,
// so that nothing waits for it.
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

// populate maps memory for the chunks of one source, as far as there is room. It returns the room that is
// left; below 0: no more memory is wanted.
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
