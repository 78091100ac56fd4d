// Package bottleneck says in one sentence what limits the readers of a gateway now, with the figures that show it, and
// what to do. It compares two looks at the counters of /v1/stats and at the ranks that read.
package bottleneck

import (
	"sync"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
)

// Processor is the counter of the processor time of the gateway. It is the only counter of a look that has no prefix millrace_.
const Processor = "process_cpu_seconds_total"

// Snapshot holds the counters and the ranks of a gateway at one moment.
type Snapshot struct {
	At       time.Time
	Counters map[string]float64 // by their names in /v1/stats, labels included
	Ranks    []Rank
	Address  func(dataset string) string // of its shards, as a command line takes it; "", or a nil func: not known
}

// Rank is one rank of one job.
type Rank struct {
	stats.Job
	Rank   uint64
	Spent  stats.RankTimes // since the rank came
	Think  time.Duration   // from the end of an answer to the next request, the mean of the last half minute
	Rate   float64         // samples per second in the last half minute
	Behind uint64          // batches behind the foremost rank of the job
	Idle   time.Duration   // since the rank last asked
}

const (
	// leastApart is the least time between two looks that are compared, where there are such. In less time a rank
	// that computes for a second or two asks too rarely.
	leastApart = 5 * time.Second

	// each is the least time between two looks that are kept, so that few are, however many people ask.
	each = time.Second
)

// History keeps the snapshots of the last seconds, for all callers of Find. The zero value is empty
// and ready. It is safe for concurrent use.
type History struct {
	mu        sync.Mutex
	snapshots []Snapshot // guarded by mu; the first one is the start of the gateway
}

// Find says what limits now. It compares a look with the last one that is five seconds older. Where no look is, it
// takes the oldest one: at first that is the start of the gateway, when all counters were zero.
func (h *History) Find(now Snapshot, began time.Time) stats.Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.snapshots) == 0 {
		h.snapshots = []Snapshot{{At: began}}
	}
	for len(h.snapshots) > 1 && now.At.Sub(h.snapshots[1].At) >= leastApart {
		h.snapshots = h.snapshots[1:]
	}
	before := h.snapshots[0]
	if now.At.Sub(h.snapshots[len(h.snapshots)-1].At) >= each {
		h.snapshots = append(h.snapshots, now)
	}
	return find(before, now)
}
