package chunkcache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Dataset is what a table knows of its data set. Its functions, except Due, run under the cache's lock: they must be
// quick, must not call the cache, and must not wait for a lock that is held while the cache is called.
type Dataset[K comparable] struct {
	Chunk func(chunk int) Chunk[K] // describes a chunk
	// Due says when readers of the data set need a chunk next: see Soon; nil: Never. For a chunk that is due by
	// enough, any answer up to enough will do. The cache asks it about some chunks before it evicts one of them.
	Due func(chunk int, enough int64) int64
	// Gone is told of each chunk that is not in memory any more, nor on its way there: it was evicted, or
	// its load ended without it. soon says that readers may come for it soon; nil: nobody wants to know.
	Gone  func(chunk int, soon bool)
	Owner any // what Name.Owner names the data set by
}

// Chunk is what a cache has to know of a chunk to bring it.
type Chunk[K comparable] struct {
	Key    K     // chunks of one key have the same bytes, in whatever table
	Size   int64 // bytes in memory
	Beside int64 // bytes that its load needs until it ends: of a chunk that is stored in another form
}

// Table finds the chunks of one data set by their numbers, without a lock and without their keys.
type Table[K comparable] struct {
	of     Dataset[K]
	chunks []atomic.Pointer[entry[K]] // nil: neither in memory nor on its way, as far as the table knows
	loads  sync.WaitGroup             // that requests with this table have started
	closed bool                       // guarded by the cache's lock
}

// NewTable returns the table of a data set of so many chunks.
func NewTable[K comparable](chunks int, of Dataset[K]) *Table[K] {
	if of.Due == nil {
		of.Due = func(int, int64) int64 { return Never }
	}
	if of.Gone == nil {
		of.Gone = func(int, bool) {}
	}
	return &Table[K]{of: of, chunks: make([]atomic.Pointer[entry[K]], chunks)}
}

// Contains reports whether a chunk is in memory, or on its way there.
func (t *Table[K]) Contains(chunk int) bool { return t.chunks[chunk].Load() != nil }

// Resident reports whether a chunk is in memory.
func (t *Table[K]) Resident(chunk int) bool {
	e := t.chunks[chunk].Load()
	return e != nil && e.resident()
}

// Name is one chunk of one data set.
type Name struct {
	Owner any
	Chunk int
}

// entry is a chunk in memory or on its way there.
type entry[K comparable] struct {
	key    K
	slot   *slot // nil on a shelf
	cost   int64
	refs   int32                   // open leases, of requests that wait for its load too; 0 in memory: the entry is idle
	load   atomic.Pointer[Fill[K]] // what brings the chunk, or has failed to; nil: it is in memory
	place  int                     // in one of the lists of idle entries, if it is idle
	due    int64                   // when it was due as it was asked last
	places []place[K]              // those that are listed do not change: the list is read without the lock
}

// resident reports whether an entry's chunk is in memory.
func (e *entry[K]) resident() bool { return e.load.Load() == nil }

// place is where a table finds an entry.
type place[K comparable] struct {
	table *Table[K]
	chunk int
}

// find returns the entry of a chunk; nil: it is neither in memory nor on its way, and is as described. A chunk of the same key
// that another table has brought is found by this table too from now on. The caller holds the cache's lock, as in what follows.
func (c *Cache[K]) find(t *Table[K], chunk int) (*entry[K], Chunk[K]) {
	if e := t.chunks[chunk].Load(); e != nil {
		return e, Chunk[K]{}
	}
	of := t.of.Chunk(chunk)
	e := c.entries[of.Key]
	if e != nil {
		t.chunks[chunk].Store(e)
		e.places = append(e.places, place[K]{t, chunk})
	}
	return e, of
}

// found lets its tables find an entry again, but for those that were closed meanwhile.
func (e *entry[K]) found() {
	e.places = slices.DeleteFunc(slices.Clone(e.places), func(p place[K]) bool { return p.table.closed })
	for _, p := range e.places {
		p.table.chunks[p.chunk].Store(e)
	}
}

// lost lets no table find an entry any more.
func (e *entry[K]) lost() {
	for _, p := range e.places {
		p.table.chunks[p.chunk].CompareAndSwap(e, nil)
	}
}

// gone tells the data sets that an entry is not there any more. The entry forgets them: the last choice
// of a chunk to evict (idle.runners) may hold the entry still.
func (e *entry[K]) gone() {
	e.lost()
	for _, p := range e.places {
		p.table.of.Gone(p.chunk, e.due <= Soon)
	}
	e.places = nil
}

// names is how many names of an entry count when it is asked when it is due: a data set of equal chunks has
// no end of them.
const names = 8

// next says when the first reader comes for an entry of some names, or any time up to enough. It needs no lock.
func next[K comparable](_ *entry[K], all []place[K], enough int64) int64 {
	due := int64(Never)
	for _, p := range all[:min(len(all), names)] {
		if due = min(due, p.table.of.Due(p.chunk, enough)); due <= enough {
			break
		}
	}
	return due
}

// Close ends a table. It waits for the loads that requests with the table have started: requests with
// other tables may wait for them too. Then it gives back the chunks that no other table finds. The
// caller holds no leases that it took with the table, and does not use the table any more.
func (c *Cache[K]) Close(t *Table[K]) {
	t.loads.Wait()
	c.mu.Lock()
	t.closed = true
	c.mu.Unlock()
	for chunk := range t.chunks {
		if !t.Contains(chunk) {
			continue
		}
		c.mu.Lock() // for one chunk at a time: requests for other tables wait
		s := c.forget(t, chunk)
		c.mu.Unlock()
		if s != nil {
			s.drop()
		}
	}
	c.asking.Lock() // until nobody asks the table any more when its chunks are due
	defer c.asking.Unlock()
}

// forget takes all names off a chunk by which a table knows it. It returns the slot if the chunk has no
// other name.
func (c *Cache[K]) forget(t *Table[K], chunk int) *slot {
	e := t.chunks[chunk].Load()
	if e == nil { // evicted meanwhile
		return nil
	}
	others := make([]place[K], 0, len(e.places))
	for _, p := range e.places {
		if p.table == t {
			t.chunks[p.chunk].Store(nil)
		} else {
			others = append(others, p)
		}
	}
	if e.places = others; len(others) > 0 {
		return nil
	}
	c.idle.remove(e)
	return c.takeOut(e)
}

// Names returns one name of each chunk in memory or on its way there.
func (c *Cache[K]) Names() []Name {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]Name, 0, len(c.entries))
	for _, e := range c.entries {
		names = append(names, Name{e.places[0].table.of.Owner, e.places[0].chunk})
	}
	return names
}

// Find lets a table find those of some chunks that other tables have brought, or bring.
func (c *Cache[K]) Find(t *Table[K], chunks ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, chunk := range chunks {
		c.find(t, chunk)
	}
}

// Lease leases n chunks of a table, of which chunk names each by its number, if all are in memory. They count as hits
// if a reader asks for them. It waits for nothing.
func (c *Cache[K]) Lease(t *Table[K], n int, reader bool, chunk func(i int) int) (*Leases[K], bool) {
	entries := make([]*entry[K], n)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range entries {
		e := t.chunks[chunk(i)].Load()
		if e == nil || !e.resident() {
			return nil, false
		}
		entries[i] = e
	}
	for _, e := range entries {
		c.lease(e)
	}
	l := &Leases[K]{cache: c, entries: entries}
	c.count(reader, l)
	return l, true
}
