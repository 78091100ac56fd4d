// Package replay runs traces of uses against eviction rules for chunks: those of the product, on
// its own shelf, and published ones.
package replay

import (
	"iter"
	"slices"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// Memory holds chunks under one eviction rule.
type Memory[K comparable] interface {
	Lease(key K) bool   // holds a chunk until Release, if it is there
	Release(key K) bool // reports whether the chunk has no more leases
	// Bring adds a missing chunk with the given number of leases, and evicts others for it if
	// necessary.
	Bring(key K, size int64, leases int)
}

// Policy returns an empty memory of so many bytes.
type Policy[K comparable] func(capacity int64) Memory[K]

// LRU evicts the least recently used chunk first. Where every chunk is read once per epoch, it is
// the worst of all rules: a cache of half the data answers 15 % of the reads, and one of a tenth
// none.
func LRU[K comparable](capacity int64) Memory[K] {
	return shelf[K]{chunkcache.NewShelf[K](nil, nil), capacity}
}

// Plan evicts the chunk first whose next use is furthest away, according to next: chunkcache.Never
// for one without further use. It is the product's rule, on the product's shelf.
func Plan[K comparable](next func(K) int64) Policy[K] {
	due := func(k K) int64 {
		if n := next(k); n < chunkcache.Never {
			return chunkcache.Soon + 1 + n // nothing is kept apart
		}
		return chunkcache.Never
	}
	return func(capacity int64) Memory[K] { return shelf[K]{chunkcache.NewShelf(due, nil), capacity} }
}

// shelf is the product's.
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

// Keep never evicts the chunks that came first: the latest chunk is evicted first. So the chunks
// that are there when the memory is full stay for good, and all later ones pass through. Where
// every chunk is read once per epoch by one reader, no rule reads less from the store: all but the
// cache's size. It needs no knowledge of the readers.
//
// This is the MinIO cache of CoorDL (Mohan et al., Analyzing and Mitigating Data Stalls in DNN
// Training, VLDB 2021, section 4.1). It has chunks in place of files, and a place for the new
// chunk, because a chunk in use must be in memory.
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

// Replayed is the result of a trace.
type Replayed struct {
	Hits, Loads int
	LoadBytes   int64
}

// Replay runs a trace of uses, each a key and its chunk's size, against a policy: as if each chunk
// was requested alone, used, and released before the next. A chunk that is not there is loaded and
// kept, and others are evicted for it; only a chunk larger than the capacity passes through. A
// policy that looks ahead may read the trace's own position: the next use is requested when the
// previous one is completely processed.
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
