// This file computes when a chunk is due. Package chunkcache uses the result to choose the chunk to
// evict (idle.go there).

package datapath

import (
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
)

// due returns when a reader needs a chunk next, as chunkcache.Dataset requires. The result is below
// chunkcache.Soon for a reader that needs it soon, and above it for a later reader. Under policy.LRU
// it is chunkcache.Never for later readers. If the due time is at most enough, due may return any
// number up to enough.
func (s *Source) due(chunk int, enough int64) int64 { return s.path.due(s, chunk, enough) }

func (p *Path) due(d lookahead.Dataset, chunk int, enough int64) int64 {
	than := lookahead.NextUse{In: time.Duration(enough), Soon: true}
	if enough > chunkcache.Soon && p.cfg.Policy != policy.LRU {
		than = lookahead.NextUse{In: time.Duration(enough - chunkcache.Soon - 1)}
	}
	c := p.readers.NextUseAfter(d, chunk, than)
	return chunkcache.DueIn(c.In, c.Soon, p.cfg.Policy == policy.LRU)
}

// gone records that a chunk was evicted or that its load has failed. soon reports whether a reader
// needed the chunk soon.
func (s *Source) gone(_ int, soon bool) {
	if soon {
		s.path.readers.Lost()
		s.path.look()
	}
}
