package datapath

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

const (
	hotShare   = 4        // divisor of the budget for hot samples: at most a quarter
	hotLargest = 64 << 10 // largest sample that is kept, in bytes; at most a 128th of the limit for all
	hotCost    = 256      // overhead of a sample in addition to its bytes: the struct and its map entry

	// hotIdle is how long hot samples are kept without any hit. A job may pause to evaluate, so
	// it is not short. A job that has ended must not take a quarter of the memory from the
	// others, so it is not long.
	hotIdle = 10 * time.Minute
)

// hotSamples keeps the samples that plans draw often, in extracts of their own, as SHADE does (Khan
// et al., SHADE: Enable Fundamental Cacheability for Distributed Deep Learning Training, FAST
// 2023). Few samples of a chunk are hot, so caching whole chunks would dilute them. hotSamples
// copies samples that were read by their own ranges: the order has no locality, or the chunk is not
// worth reading whole. Samples in a cached chunk are served from the chunk. The oldest extract is
// evicted first, so a new snapshot's samples replace those of the previous snapshot.
type hotSamples struct {
	cache *chunkcache.Cache[key]
	max   int64

	hits, hitBytes atomic.Uint64

	mu    sync.Mutex // guards the fields below
	kept  []*extract // oldest first; each is pinned
	bytes int64
	count uint64    // extracts added so far
	uses  uint64    // sum of hits and count at the last call of expire
	since time.Time // when uses last changed
}

// keep copies the hot samples of a completed load to an extract of their own, if there is room.
func (h *hotSamples) keep(from *extract) {
	var all []*sample
	var n int64
	for _, s := range from.samples {
		if size := int64(len(s.data)) + hotCost; s.hot && s.err == nil && size <= min(hotLargest, h.max/128) {
			all, n = append(all, s), n+size
		}
	}
	if n == 0 || chunkcache.Cost(n) > h.max {
		return
	}
	own, ok := h.cache.TryBuffer(n)
	if !ok {
		return
	}
	if own.Cost() > h.max { // the slot is an existing free one, larger than requested
		own.Close()
		return
	}
	e := &extract{all: from.all, source: from.source, room: newRoom(own), pins: 1, hot: true}
	for _, s := range all {
		k := e.add(s.place, true)
		copy(k.data, s.data)
		k.finished.Store(true)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(func(*extract) bool { return h.bytes+own.Cost() > h.max })
	h.kept, h.bytes, h.count = append(h.kept, e), h.bytes+own.Cost(), h.count+1
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	for _, k := range e.samples {
		e.all.samples[k.place] = k
	}
}

// drop frees the extracts for which the function returns true, oldest first. The caller holds mu.
func (h *hotSamples) drop(which func(*extract) bool) {
	h.kept = slices.DeleteFunc(h.kept, func(e *extract) bool {
		goes := which(e)
		if goes {
			h.bytes -= e.room.own.Cost()
			e.unpin()
		}
		return goes
	})
}

// forget drops the samples of a source.
func (h *hotSamples) forget(s *Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(func(e *extract) bool { return e.source == s })
}

// expire drops all hot samples after hotIdle without a hit.
func (h *hotSamples) expire(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if uses := h.hits.Load() + h.count; uses != h.uses {
		h.uses, h.since = uses, now
	} else if now.Sub(h.since) > hotIdle {
		h.drop(func(*extract) bool { return true })
	}
}

// reclaim drops the oldest extracts until it has dropped n bytes, and returns the number of bytes
// dropped. Extracts that batches still pin are freed later.
func (h *hotSamples) reclaim(n int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.bytes
	h.drop(func(*extract) bool { return before-h.bytes < n })
	return before - h.bytes
}

// held returns the number of bytes that hot samples take.
func (h *hotSamples) held() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}
