package datapath

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// populate maps memory for the chunks, as much as may be used ahead, until the first reader comes: piece by piece,
// so that nothing waits for it.
func (p *Path) populate(ctx context.Context) {
	p.mu.Lock()
	sources := slices.Clone(p.open)
	p.mu.Unlock()
	room := ahead(p.budget.Total()) - p.budget.InUse()
	for _, s := range sources {
		for i := range s.index.Chunks() {
			n := s.index.Chunk(i).Length
			room -= chunkcache.Cost(n)
			if room < 0 || ctx.Err() != nil || len(p.kick) > 0 || !p.cache.Populate(n) {
				return
			}
		}
	}
}
