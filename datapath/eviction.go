// This file computes when a chunk is due. Package chunkcache uses the result to choose the chunk to
// evict (idle.go there).

package datapath

import (
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
)

// Policy names the rule that chooses which chunk to evict among those that no reader needs soon.
type Policy string

// The policies.
const (
	PolicyPlan Policy = "plan" // evict the chunk whose next use is last, over all known readers
	PolicyLRU  Policy = "lru"  // evict the chunk that was used longest ago
)

// Policies returns all policies, the default first.
func Policies() []Policy { return []Policy{PolicyPlan, PolicyLRU} }

// due returns when a reader needs a chunk next, as chunkcache.Dataset requires. The result is below
// chunkcache.Soon for a reader that needs it soon, and above it for a later reader. Under PolicyLRU
// it is chunkcache.Never for later readers. If the due time is at most enough, due may return any
// number up to enough.
func (s *Source) due(chunk int, enough int64) int64 { return s.path.due(s, chunk, enough) }

func (p *Path) due(d lookahead.Dataset, chunk int, enough int64) int64 {
	than := lookahead.NextUse{In: time.Duration(enough), Soon: true}
	if enough > chunkcache.Soon && p.cfg.Policy != PolicyLRU {
		than = lookahead.NextUse{In: time.Duration(enough - chunkcache.Soon - 1)}
	}
	c := p.readers.NextUseAfter(d, chunk, than)
	return chunkcache.DueIn(c.In, c.Soon, p.cfg.Policy == PolicyLRU)
}

// gone records that a chunk was evicted or that its load has failed. soon reports whether a reader
// needed the chunk soon.
func (s *Source) gone(_ int, soon bool) {
	if soon {
		s.path.readers.Lost()
		s.path.look()
	}
}
