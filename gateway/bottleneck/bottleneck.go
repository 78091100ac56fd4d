// Package bottleneck says what limits the readers of a gateway now: in one sentence, with the figures that show it, and what to do about
// it. It compares two looks at the counters that /v1/stats shows, and at the ranks that read.
package bottleneck

import (
	"sync"
	"time"
)

// Look is what a gateway shows at one moment.
type Look struct {
	At       time.Time
	Counters map[string]float64 // by their names in /v1/stats, labels included
	Ranks    []Rank
}

// Rank is one rank of one job, of late.
type Rank struct {
	Dataset         string
	Rank, WorldSize uint64
	Waiting         float64       // share of its time that it waits for bytes, 0 to 1
	Think           time.Duration // from the end of an answer to its next request
	Behind          uint64        // batches, the foremost rank of its job
	Idle            time.Duration // since it last asked
}

// Finding is what limits the readers. Its text is for people; Code stays the same.
type Finding struct {
	Code     string  `json:"code"`
	Sentence string  `json:"sentence"`
	Cure     string  `json:"do,omitempty"` // the setting to touch, or where to look
	Seconds  float64 `json:"seconds"`      // that were looked at
}

const (
	leastApart = 5 * time.Second // between two looks that are compared, if there are such
	each       = time.Second     // between two looks that are kept
)

// History keeps the looks of the last seconds. The zero value has none. It is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	looks []Look // guarded by mu
}

// Find says what limits now: it compares a look with the last one that is five seconds older, with the oldest one where there is none,
// and the first look of all with the time at which the gateway began.
func (h *History) Find(now Look, began time.Time) Finding {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.looks) > 1 && now.At.Sub(h.looks[1].At) >= leastApart {
		h.looks = h.looks[1:]
	}
	before := Look{At: began}
	if len(h.looks) > 0 {
		before = h.looks[0]
	}
	if n := len(h.looks); n == 0 || now.At.Sub(h.looks[n-1].At) >= each {
		h.looks = append(h.looks, now)
	}
	return find(before, now)
}
