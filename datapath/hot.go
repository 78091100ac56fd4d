package datapath

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

const (
	hotShare   = 4       // the part of the budget that hot samples may take at most: a quarter
	hotSlab    = 1 << 20 // bytes of one slab, less where the budget is small
	hotSamples = 16      // at the least that a slab has room for, or a sample is too large to be kept
	hotCost    = 128     // of a sample beside its bytes: its cell of the map and of the slab's list

	// hotIdle is for how long samples are kept that nobody asks for: a job may pause to evaluate, and one that has ended
	// must not keep a quarter of the memory from the others.
	hotIdle = 10 * time.Minute
)

// hot keeps samples that plans draw often, by themselves, beside the chunk cache: the samples that SHADE keeps (Khan et al.,
// SHADE: Enable Fundamental Cacheability for Distributed Deep Learning Training, FAST 2023). A chunk
// would dilute them: of its samples few are hot. They come here when they were read by themselves, as an order without locality reads
// them, or a chunk that is not worth bringing as a whole; what comes with its chunk is served from that.
//
// Samples lie one after another in slabs, and the oldest slab goes first: a new snapshot's samples take the place of
// those of the one before.
type hot struct {
	cache *chunkcache.Cache[key]
	max   int64
	slab  int64

	hits, hitBytes atomic.Uint64

	mu      sync.Mutex // guards what follows, and the slabs' bytes
	samples map[hotKey][]byte
	slabs   []*slab // oldest first
	bytes   int64
	kept    uint64    // samples so far
	uses    uint64    // hits and samples kept, when last looked at
	since   time.Time // they have not changed
}

// hotKey is a sample by its place.
type hotKey struct {
	source *Source
	chunk  int
	offset uint32
}

// slab is memory for many samples.
type slab struct {
	buffer *chunkcache.Buffer[key]
	used   int64 // bytes and costs of its samples
	end    int64 // of its samples' bytes
	keys   []hotKey
}

func newHot(cache *chunkcache.Cache[key], total int64) *hot {
	limit := total / hotShare
	return &hot{cache: cache, max: limit, slab: min(hotSlab, limit/8), samples: map[hotKey][]byte{}}
}

// read copies a sample, if it is there.
func (h *hot) read(k hotKey, dst []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.samples[k]
	if !ok {
		return false
	}
	copy(dst, b)
	h.hits.Add(1)
	h.hitBytes.Add(uint64(len(b)))
	return true
}

// keep takes a checked sample in, if there is room for it.
func (h *hot) keep(k hotKey, b []byte) {
	n := int64(len(b)) + hotCost
	if n > h.slab/hotSamples {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.samples[k]; ok {
		return
	}
	s := h.open(n)
	if s == nil {
		return
	}
	at := s.buffer.Bytes()[s.end : s.end+int64(len(b)) : s.end+int64(len(b))]
	copy(at, b)
	h.samples[k] = at
	h.kept++
	s.used, s.end, s.keys = s.used+n, s.end+int64(len(b)), append(s.keys, k)
}

// open returns the slab that takes n bytes more, nil if there is no memory for it. The caller holds mu, as in what follows.
func (h *hot) open(n int64) *slab {
	if last := len(h.slabs) - 1; last >= 0 && h.slabs[last].used+n <= h.slab {
		return h.slabs[last]
	}
	for h.bytes+chunkcache.Cost(h.slab) > h.max && len(h.slabs) > 0 {
		h.drop()
	}
	buffer, ok := h.cache.TryBuffer(h.slab)
	if !ok {
		return nil
	}
	s := &slab{buffer: buffer}
	h.slabs, h.bytes = append(h.slabs, s), h.bytes+buffer.Cost()
	return s
}

// drop gives the oldest slab up.
func (h *hot) drop() {
	s := h.slabs[0]
	h.slabs = slices.Delete(h.slabs, 0, 1)
	for _, k := range s.keys {
		delete(h.samples, k)
	}
	h.bytes -= s.buffer.Cost()
	s.buffer.Close()
}

// forget drops the samples of a source, and the slabs that hold no others.
func (h *hot) forget(s *Source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.slabs[:0]
	for _, b := range h.slabs {
		b.keys = slices.DeleteFunc(b.keys, func(k hotKey) bool {
			if k.source == s {
				delete(h.samples, k)
			}
			return k.source == s
		})
		if len(b.keys) > 0 {
			kept = append(kept, b)
			continue
		}
		h.bytes -= b.buffer.Cost()
		b.buffer.Close()
	}
	clear(h.slabs[len(kept):])
	h.slabs = kept
}

// expire gives everything up if nobody has asked for it for long.
func (h *hot) expire(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if uses := h.hits.Load() + h.kept; uses != h.uses {
		h.uses, h.since = uses, now
	} else if now.Sub(h.since) > hotIdle {
		for len(h.slabs) > 0 {
			h.drop()
		}
	}
}

// reclaim gives slabs up until n bytes are free in the cache, and returns the bytes.
func (h *hot) reclaim(n int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.bytes
	for before-h.bytes < n && len(h.slabs) > 0 {
		h.drop()
	}
	return before - h.bytes
}

// held returns the bytes that the slabs take.
func (h *hot) held() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// hotTier serves hot samples that are kept by themselves, and keeps those that the next tier brings.
type hotTier struct {
	*hot
	next tier
}

// Load copies samples.
func (h hotTier) Load(ctx context.Context, l *load, fills []*fill) error {
	rest := make([]*fill, 0, len(fills))
	for _, x := range fills {
		if x.Ranges = h.copy(l.source, x); len(x.Ranges) > 0 {
			rest = append(rest, x)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if err := h.next.Load(ctx, l, rest); err != nil {
		return err
	}
	for _, x := range rest {
		for _, r := range x.Ranges {
			if r.Hot {
				h.keep(hotKey{l.source, x.Chunk, r.Offset}, x.segments[r.Seq])
			}
		}
	}
	return nil
}

// copy copies the samples of a fill that are here into their segments, and returns the others.
func (h hotTier) copy(s *Source, x *fill) []batch.Range {
	var others []batch.Range
	for n, r := range x.Ranges {
		if r.Hot && h.read(hotKey{s, x.Chunk, r.Offset}, x.segments[r.Seq]) {
			if others == nil {
				others = append(make([]batch.Range, 0, len(x.Ranges)), x.Ranges[:n]...)
			}
		} else if others != nil {
			others = append(others, r)
		}
	}
	if others != nil {
		return others
	}
	return x.Ranges
}
