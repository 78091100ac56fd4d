// Package bottleneck describes the bottleneck of a gateway's readers in one sentence, with figures
// and a remedy. It compares two snapshots of the counters in /v1/stats and of the ranks.
package bottleneck

import (
	"sync"
	"time"

	"github.com/millrace-data/millrace/gateway/stats"
)

// Processor is the name of the counter of the gateway's processor time. It is the only counter
// without the prefix millrace_.
const Processor = "process_cpu_seconds_total"

// Snapshot has the counters and ranks of a gateway at one time.
type Snapshot struct {
	At       time.Time
	Counters map[string]float64 // by name in /v1/stats, with labels
	Ranks    []Rank
	Address  func(dataset string) string // returns the address of a dataset's shards for a command line, or "" if unknown; nil: unknown
}

// Rank is one rank of one job.
type Rank struct {
	stats.Job
	Rank   uint64
	Spent  stats.RankTimes // since the first request of the rank
	Think  time.Duration   // mean time from the end of a response to the next request, over the last half minute
	Rate   float64         // samples per second in the last half minute
	Behind uint64          // batches behind the fastest rank of the job
	Idle   time.Duration   // since the last request of the rank
}

// Recent holds the figures of one rank between two snapshots.
type Recent struct {
	Waiting float64       // share of the time that the rank waited for bytes, 0 to 1
	Think   time.Duration // mean time from the end of a response to the next request
}

const (
	// leastApart is the minimum time between two compared snapshots, if there are such
	// snapshots. In less time, ranks that compute for a second or two make too few requests.
	leastApart = 5 * time.Second

	// each is the minimum time between two stored snapshots, so that frequent calls do not fill
	// the history.
	each = time.Second
)

// History stores the snapshots of the last seconds for all callers of Find. The zero value is ready
// to use. It is safe for concurrent use.
type History struct {
	mu        sync.Mutex
	snapshots []Snapshot // guarded by mu; the first snapshot is the start of the gateway
}

// Find returns the current bottleneck, and the figures of each of now.Ranks over the same period.
// It compares now with the latest snapshot that is at least leastApart older, otherwise with the
// oldest snapshot. The initial snapshot is the start of the gateway, when all counters were zero.
func (h *History) Find(now Snapshot, began time.Time) (stats.Finding, []Recent) {
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
	c := between(before, now)
	return find(c), c.recent
}
