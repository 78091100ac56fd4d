// Package replay runs traces of chunk uses against eviction policies: those of the product, with
// the product's own shelf, and published ones.
package replay

import (
	"iter"
	"slices"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// Memory holds chunks under one eviction policy.
type Memory[K comparable] interface {
	Lease(key K) bool   // pins a chunk until Release, and reports whether it is in memory
	Release(key K) bool // reports whether the chunk has no other leases
	// Bring adds a missing chunk with the given number of leases. If necessary, it evicts other
	// chunks.
	Bring(key K, size int64, leases int)
}

// Policy returns an empty memory with a capacity in bytes.
type Policy[K comparable] func(capacity int64) Memory[K]

// LRU evicts the least recently used chunk first. If every chunk is read once per epoch, LRU is the
// worst policy: a cache of half the data serves 15 % of the reads, and a cache of a tenth serves
// none.
func LRU[K comparable](capacity int64) Memory[K] {
	return shelf[K]{chunkcache.NewShelf[K](nil, nil), capacity}
}

// Plan first evicts the chunk whose next use is furthest away, according to next. next returns
// chunkcache.Never for a chunk without further use. Plan is the product's policy, on the product's
// shelf.
func Plan[K comparable](next func(K) int64) Policy[K] {
	due := func(k K) int64 {
		if n := next(k); n < chunkcache.Never {
			return chunkcache.Soon + 1 + n // no chunk gets a special due time
		}
		return chunkcache.Never
	}
	return func(capacity int64) Memory[K] { return shelf[K]{chunkcache.NewShelf(due, nil), capacity} }
}

// shelf is the product's shelf as a Memory.
type shelf[K comparable] struct {
	*chunkcache.Shelf[K]
	capacity int64
}

func (s shelf[K]) Bring(key K, size int64, leases int) {
	if missing := s.Bytes() + size - s.capacity; missing > 0 && s.Evict(missing, chunkcache.AnyDue) < missing {
		panic("replay: no room for a chunk")
	}
	s.Put(key, size, leases)
}

// kept is the memory of Keep.
type kept[K comparable] struct {
	capacity, bytes int64
	came            []K // in order
	size            map[K]int64
	leases          map[K]int
}

// Keep evicts the chunk that arrived last. The chunks that first filled the memory remain for good,
// and all later chunks pass through. If one reader reads every chunk once per epoch, no policy
// reads less from the store: each epoch reads all data except the size of the cache. Keep needs no
// information about the readers.
//
// This is the MinIO cache of CoorDL (Mohan et al., Analyzing and Mitigating Data Stalls in DNN
// Training, VLDB 2021, section 4.1), with two differences. It holds chunks instead of files, and it
// makes room for each new chunk, because a chunk in use must be in memory.
func Keep[K comparable](capacity int64) Memory[K] {
	return &kept[K]{capacity: capacity, size: map[K]int64{}, leases: map[K]int{}}
}

func (m *kept[K]) Lease(key K) bool {
	_, there := m.size[key]
	if there {
		m.leases[key]++
	}
	return there
}

func (m *kept[K]) Release(key K) bool {
	m.leases[key]--
	return m.leases[key] == 0
}

func (m *kept[K]) Bring(key K, size int64, leases int) {
	for i := len(m.came) - 1; m.bytes+size > m.capacity; i-- {
		if last := m.came[i]; m.leases[last] == 0 {
			m.came = slices.Delete(m.came, i, i+1)
			m.bytes -= m.size[last]
			delete(m.size, last)
		}
	}
	m.came = append(m.came, key)
	m.size[key], m.leases[key] = size, leases
	m.bytes += size
}

// Replayed is the result of replaying a trace.
type Replayed struct {
	Hits, Loads int
	LoadBytes   int64
}

// Replay runs a trace of uses against a policy. Each use is a key and the size of its chunk. It
// requests, uses and releases one chunk before the next. A missing chunk is loaded into memory, and
// others are evicted for it; a chunk larger than the capacity only passes through. A policy that
// looks ahead may read the trace's own position, because the next use is requested only after the
// previous one is complete.
func Replay[K comparable](policy Policy[K], capacity int64, uses iter.Seq2[K, int64]) Replayed {
	var r Replayed
	m := policy(capacity)
	for key, size := range uses {
		if m.Lease(key) {
			r.Hits++
			m.Release(key)
			continue
		}
		r.Loads++
		r.LoadBytes += size
		if size <= capacity {
			m.Bring(key, size, 0)
		}
	}
	return r
}
