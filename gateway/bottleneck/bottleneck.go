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
	Ranks    []stats.Reader
	Address  func(dataset string) string // returns the address of a dataset's shards for a command line, or "" if unknown; nil: unknown
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

// Find returns the current bottleneck. It sets ThinkMS and WaitingShare of each of now.Ranks to their
// values over the same period. It compares now with the latest snapshot that is at least leastApart older, otherwise with the
// oldest snapshot. The initial snapshot is the start of the gateway, when all counters were zero.
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
	return find(between(before, now))
}
