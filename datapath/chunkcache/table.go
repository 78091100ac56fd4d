package chunkcache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Dataset describes a dataset to a table. Its functions, except Due, run under the cache's lock.
// They must return quickly, must not call the cache, and must not wait for a lock that is held
// during a call of the cache.
type Dataset[K comparable] struct {
	Chunk func(chunk int) Chunk[K] // returns the description of a chunk
	// Due returns when readers of the dataset need a chunk next (see Soon); nil: Never. If the
	// chunk is due by enough, any result up to enough will do. The cache calls Due for some
	// chunks before it evicts one of them.
	Due func(chunk int, enough int64) int64
	// Gone is called for each chunk that is no longer in memory or being loaded, because it was
	// evicted or its load failed. soon reports whether readers may need it soon. It may be nil.
	Gone  func(chunk int, soon bool)
	Owner any // Name.Owner of the dataset's chunks
}

// Chunk describes a chunk to the cache.
type Chunk[K comparable] struct {
	Key   K     // chunks with the same key have the same bytes, in all tables
	Size  int64 // bytes in memory
	Extra int64 // additional bytes needed until its load ends, for example to decode it
}

// Table finds the chunks of one dataset by their numbers, without a lock and without their keys.
type Table[K comparable] struct {
	of     Dataset[K]
	chunks []atomic.Pointer[entry[K]] // nil: neither in memory nor being loaded, as far as known to the table
	loads  sync.WaitGroup             // loads that requests with this table have started
	closed bool                       // guarded by the cache's lock
}

// NewTable returns the table of a dataset with the given number of chunks.
func NewTable[K comparable](chunks int, of Dataset[K]) *Table[K] {
	if of.Due == nil {
		of.Due = func(int, int64) int64 { return Never }
	}
	if of.Gone == nil {
		of.Gone = func(int, bool) {}
	}
	return &Table[K]{of: of, chunks: make([]atomic.Pointer[entry[K]], chunks)}
}

// Contains reports whether a chunk is in memory or being loaded.
func (t *Table[K]) Contains(chunk int) bool { return t.chunks[chunk].Load() != nil }

// Resident reports whether a chunk is in memory.
func (t *Table[K]) Resident(chunk int) bool {
	e := t.chunks[chunk].Load()
	return e != nil && e.resident()
}

// Name identifies one chunk of one dataset.
type Name struct {
	Owner any
	Chunk int
}

// entry is a chunk in memory or being loaded.
type entry[K comparable] struct {
	key    K
	slot   *slot // nil on a shelf
	cost   int64
	refs   int32                   // number of open leases, including those of requests that wait for its load; 0 in memory: the entry is idle
	load   atomic.Pointer[Fill[K]] // load of the chunk, running or failed; nil: the chunk is in memory
	place  int                     // index in an idle list, if the entry is idle
	due    int64                   // due time at the last query
	places []place[K]              // names in the tables; elements do not change once listed, so reading the list needs no lock
}

// resident reports whether an entry's chunk is in memory.
func (e *entry[K]) resident() bool { return e.load.Load() == nil }

// place is a table's reference to an entry.
type place[K comparable] struct {
	table *Table[K]
	chunk int
}

// find returns the entry of a chunk. If the chunk is neither in memory nor being loaded, it returns
// nil and the description of the chunk. If another table has loaded a chunk with the same key, find
// adds it to this table. The caller of this method and of those below holds the cache's lock.
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

// found adds an entry to its tables again, except tables that were closed meanwhile.
func (e *entry[K]) found() {
	e.places = slices.DeleteFunc(slices.Clone(e.places), func(p place[K]) bool { return p.table.closed })
	for _, p := range e.places {
		p.table.chunks[p.chunk].Store(e)
	}
}

// lost removes an entry from its tables.
func (e *entry[K]) lost() {
	for _, p := range e.places {
		p.table.chunks[p.chunk].CompareAndSwap(e, nil)
	}
}

// gone notifies the datasets that an entry is no longer in memory or being loaded. The entry drops
// its references to them, since the last choice of a chunk to evict (idle.runners) may still
// reference the entry.
func (e *entry[K]) gone() {
	e.lost()
	for _, p := range e.places {
		p.table.of.Gone(p.chunk, e.due <= Soon)
	}
	e.places = nil
}

// names is the maximum number of an entry's places for which Due is called: a dataset with equal
// chunks has very many.
const names = 8

// next returns the due time of an entry for the first reader that needs one of the given places. If
// it is at most enough, next may return any time up to enough. next needs no lock.
func next[K comparable](_ *entry[K], all []place[K], enough int64) int64 {
	due := int64(Never)
	for _, p := range all[:min(len(all), names)] {
		if due = min(due, p.table.of.Due(p.chunk, enough)); due <= enough {
			break
		}
	}
	return due
}

// Close closes a table. It waits for the loads that requests with the table have started, since
// requests with other tables may wait for them too. Then it frees the chunks that no other table
// has. The caller must hold no leases that it took with the table, and must not use the table
// afterwards.
func (c *Cache[K]) Close(t *Table[K]) {
	t.loads.Wait()
	c.mu.Lock()
	t.closed = true
	c.mu.Unlock()
	for chunk := range t.chunks {
		if !t.Contains(chunk) {
			continue
		}
		c.mu.Lock() // locked for one chunk at a time, so that requests with other tables can proceed
		s := c.forget(t, chunk)
		c.mu.Unlock()
		if s != nil {
			s.drop()
		}
	}
	c.asking.Lock() // wait until no due time of the table is being queried
	defer c.asking.Unlock()
}

// forget removes all places of a chunk in a table. It returns the slot if no other table has the
// chunk.
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

// Names returns one name for each chunk in memory or being loaded.
func (c *Cache[K]) Names() []Name {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := make([]Name, 0, len(c.entries))
	for _, e := range c.entries {
		names = append(names, Name{e.places[0].table.of.Owner, e.places[0].chunk})
	}
	return names
}

// Find adds to a table those of the given chunks that other tables have loaded or are loading.
func (c *Cache[K]) Find(t *Table[K], chunks ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, chunk := range chunks {
		c.find(t, chunk)
	}
}

// Lease leases n chunks of a table if all are in memory. chunk returns the number of each. If
// reader is set, they count as hits. Lease does not block.
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
