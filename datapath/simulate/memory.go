package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// memory is the budget of one gateway: a shelf of chunks, chunks being loaded, and bodies that had
// to be copied. It follows the rules of the cache and the budget. Leased chunks stay, and a chunk
// is evicted only for a chunk that is due sooner, or for a body that waits.
type memory struct {
	clock *clock
	total int64
	inUse int64
	peak  int64
	shelf *chunkcache.Shelf[int32]
	freed func() // called when memory may have become free
	loads map[int32]*load
	queue queue         // bodies that wait for memory
	ahead func(n int64) // frees samples of read-ahead
}

// load is a chunk being loaded. Its memory is reserved.
type load struct {
	latch
	cost int64
	refs int // requests that lease the chunk when it arrives
}

func newMemory(c *clock, total int64, due func(int32) int64, gone func(int32)) *memory {
	m := &memory{clock: c, total: total, shelf: chunkcache.NewShelf(due, gone), loads: map[int32]*load{}}
	m.queue = queue{clock: c, take: func(n int64) bool {
		if !m.free(n) {
			return false
		}
		m.grant(n)
		return true
	}}
	return m
}

// contains reports whether a chunk is in memory or being loaded.
func (m *memory) contains(chunk int32) bool { return m.loads[chunk] != nil || m.shelf.Has(chunk) }

// hasRoom reports whether there is memory to prefetch n bytes due at the given time: free memory in
// addition to the memory for bodies, or the memory of a chunk that is due later.
func (m *memory) hasRoom(n, due int64) bool {
	return policy.Ahead(m.total)-m.inUse >= n || m.shelf.Goes(due)
}

// take reserves n bytes for chunks due at the given time, all or none. It evicts chunks that are
// due later.
func (m *memory) take(n, due int64) bool {
	if len(m.queue.waiters) > 0 {
		return false
	}
	if missing := n - (m.total - m.inUse); missing > 0 {
		m.inUse -= m.shelf.Evict(missing, due)
	}
	if n > m.total-m.inUse {
		return false
	}
	m.grant(n)
	return true
}

// give frees n bytes.
func (m *memory) give(n int64) {
	m.inUse -= n
	m.nudge()
}

func (m *memory) grant(n int64) {
	m.inUse += n
	m.peak = max(m.peak, m.inUse)
}

// nudge serves waiters while bytes are free or can be freed.
func (m *memory) nudge() {
	m.queue.next()
	m.freed()
}

// free evicts chunks until n bytes are free, and reports whether they are. Chunks that a reader
// needs soon are evicted last.
func (m *memory) free(n int64) bool {
	for _, give := range []func(n int64){
		func(n int64) { m.inUse -= m.shelf.EvictSome(n, chunkcache.Soon) },
		m.ahead,
		func(n int64) { m.inUse -= m.shelf.EvictSome(n, chunkcache.AnyDue) },
	} {
		if missing := n - (m.total - m.inUse); missing > 0 {
			give(missing)
		}
	}
	return m.total-m.inUse >= n
}

// release ends a lease of a chunk.
func (m *memory) release(chunk int32) {
	if m.shelf.Release(chunk) {
		m.nudge()
	}
}

// begin adds a chunk being loaded. Its memory is reserved.
func (m *memory) begin(chunk int32, cost int64) *load {
	l := &load{cost: cost}
	m.loads[chunk] = l
	return l
}

// arrived adds a chunk to memory, with the leases of the requests that wait for it.
func (m *memory) arrived(chunk int32) {
	l := m.loads[chunk]
	delete(m.loads, chunk)
	m.shelf.Put(chunk, l.cost, l.refs)
	l.open(m.clock)
	m.nudge()
}
