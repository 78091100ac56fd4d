package simulate

import (
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
)

// memory is the budget of one gateway: a shelf of chunks, chunks on their way, and bodies that had to be copied. Its
// rules are those of a cache and of the budget: what somebody holds stays, and a chunk goes only for one that is due sooner, or
// for a body that waits.
type memory struct {
	total int64
	inUse int64
	peak  int64
	shelf *chunkcache.Shelf[int32]
	freed func() // called when memory may be free
	loads map[int32]*load
	queue []waiter      // bodies that wait for memory
	ahead func(n int64) // gives up what was asked for ahead of need
}

// load is a chunk on its way, its memory taken.
type load struct {
	cost    int64
	waiters []func()
}

// waiter waits for n bytes.
type waiter struct {
	n     int64
	ready func()
}

func newMemory(total int64, due func(int32) int64, gone func(int32)) *memory {
	return &memory{total: total, shelf: chunkcache.NewShelf(due, gone), loads: map[int32]*load{}}
}

// contains reports whether a chunk is in memory or on its way there.
func (m *memory) contains(chunk int32) bool { return m.loads[chunk] != nil || m.shelf.Has(chunk) }

// hasRoom reports whether n bytes that are due at a time may be read ahead of need: into memory that is free beside what bodies
// need, or instead of a chunk that is due later.
func (m *memory) hasRoom(n, due int64) bool {
	return policy.Ahead(m.total)-m.inUse >= n || m.shelf.Goes(due)
}

// take reserves n bytes for what is due at a time, instead of chunks that are due later: all of it or nothing.
func (m *memory) take(n, due int64) bool {
	if len(m.queue) > 0 {
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

// reserve takes n bytes for a body, instead of any chunk that nobody holds, and calls ready when it has them.
func (m *memory) reserve(n int64, ready func()) {
	m.queue = append(m.queue, waiter{n, ready})
	m.nudge()
}

// give returns n bytes.
func (m *memory) give(n int64) {
	m.inUse -= n
	m.nudge()
}

func (m *memory) grant(n int64) {
	m.inUse += n
	m.peak = max(m.peak, m.inUse)
}

// nudge lets those that wait try again: bytes are free, or can be.
func (m *memory) nudge() {
	for len(m.queue) > 0 && m.free(m.queue[0].n) {
		w := m.queue[0]
		m.queue = m.queue[1:]
		m.grant(w.n)
		w.ready()
	}
	m.freed()
}

// free lets chunks go until n bytes are free, those that a reader comes for soon last, and reports whether they are.
func (m *memory) free(n int64) bool {
	for _, give := range []func(n int64){
		func(n int64) { m.inUse -= m.shelf.EvictSome(n, chunkcache.Soon) },
		m.ahead,
		func(n int64) { m.inUse -= m.shelf.EvictSome(n, chunkcache.Whatever) },
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

// begin notes a chunk on its way, whose memory is taken.
func (m *memory) begin(chunk int32, cost int64) { m.loads[chunk] = &load{cost: cost} }

// wait calls ready when a chunk on its way has come, which its caller then holds.
func (m *memory) wait(chunk int32, ready func()) {
	l := m.loads[chunk]
	l.waiters = append(l.waiters, ready)
}

// arrived puts a chunk into memory and hands it to those that wait.
func (m *memory) arrived(chunk int32) {
	l := m.loads[chunk]
	delete(m.loads, chunk)
	m.shelf.Put(chunk, l.cost, len(l.waiters))
	for _, ready := range l.waiters {
		ready()
	}
	m.nudge()
}
