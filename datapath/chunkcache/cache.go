package chunkcache

import (
	"errors"
	"sync"

	"github.com/millrace-data/millrace/internal/budget"
)

// ErrNoRoom reports that there is currently no room for all requested chunks together.
var ErrNoRoom = errors.New("no room in the cache")

// errAborted is the error for waiters when a load ends without a result.
var errAborted = errors.New("load ended without a result")

// Config configures a Cache. The zero value of a field means its default.
type Config struct {
	Budget *budget.Budget // the budget in which all memory is reserved
	Debug  bool           // poison freed slots, and panic if a lease is closed twice: for tests
}

// Cache holds chunks in memory by key. It is safe for concurrent use.
type Cache[K comparable] struct {
	budget *budget.Budget
	debug  bool
	arena  *arena
	loads  sync.WaitGroup
	asking sync.RWMutex // held for reading while tables are queried for due times; mu may be locked meanwhile

	mu        sync.Mutex      // guards the fields below, and the fields of entries and fills
	entries   map[K]*entry[K] // chunks in memory, or being loaded for a waiting request
	idle      idle[K]
	free      map[int64][]*slot
	freeBytes int64
	stats     Stats
}

// Stats is a snapshot of a cache's counters and sizes. Lookups for a prefetch count as loads, never
// as hits or misses.
type Stats struct {
	Hits      uint64 // chunks found in memory
	Misses    uint64 // chunks loaded, or joined to a running load
	Loads     uint64
	Joins     uint64 // chunks joined to a running load
	Failures  uint64 // loads that ended in an error
	Evictions uint64
	Expected  uint64 // evictions of chunks that a reader needed soon

	Chunks      int64 // in memory
	Bytes       int64 // size of their slots
	FreeBytes   int64 // mapped slots without a chunk
	OpenLeases  int64
	LoadsActive int64
}

// New returns an empty cache.
func New[K comparable](cfg Config) *Cache[K] {
	return &Cache[K]{
		budget:  cfg.Budget,
		debug:   cfg.Debug,
		arena:   newArena(cfg.Budget.Total()),
		entries: map[K]*entry[K]{},
		idle:    newIdle[K](),
		free:    map[int64][]*slot{},
	}
}

// Stats returns the counters.
func (c *Cache[K]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.FreeBytes = c.freeBytes
	return s
}

// Reclaim frees at least n bytes of the budget if it can: first free slots, then idle chunks that
// may be evicted for a chunk due at the given time. It returns the number of bytes freed.
func (c *Cache[K]) Reclaim(n, due int64) (back int64) {
	for back < n {
		c.mu.Lock()
		s := c.takeAny()
		c.mu.Unlock()
		if s == nil && !c.evict(due, func() bool { return true }, func(evicted *slot) { s = evicted }) {
			break
		}
		back += s.cost()
		s.drop()
	}
	return back
}

// makeRoom evicts chunks for a chunk due at the given time, until n bytes are free in the budget or
// in slots. It evicts none if all idle chunks together are not enough. It reports whether it
// evicted any.
func (c *Cache[K]) makeRoom(n, due int64) (any bool) {
	lacks := func() bool {
		missing := n - c.unused()
		return missing > 0 && missing <= c.idle.bytes
	}
	for c.evict(due, lacks, c.putFree) {
		any = true
	}
	return any
}

// Free returns the total size of the slots without a chunk.
func (c *Cache[K]) Free() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeBytes
}

// Idle returns the total size of the chunks without a lease.
func (c *Cache[K]) Idle() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.bytes
}

// Goes reports whether any chunk may be evicted for a chunk due at the given time.
func (c *Cache[K]) Goes(due int64) (goes bool) {
	c.choose(due, func(*entry[K]) { goes = true })
	return goes
}

// Populate allocates memory for a chunk of n bytes before its load needs it; that allocation is a
// quarter of a first load's CPU time. It uses no memory that is needed now. It reports whether
// there may be memory for another chunk. Small chunks are in Go's heap, so it does nothing for
// them.
func (c *Cache[K]) Populate(n int64) bool {
	class := classOf(n)
	if class <= heapClass {
		return true
	}
	if c.budget.Waiting() > 0 {
		return false
	}
	held, ok := c.budget.TryReserve(class + entryCost)
	if !ok {
		return false
	}
	b, err := c.open(&slot{class: class, arena: c.arena, held: held}, n)
	if err != nil {
		return false
	}
	b.Close()
	return true
}

// Drop waits for the loads and frees all memory that is not leased. If nothing is leased it frees
// the address space too.
func (c *Cache[K]) Drop() {
	c.loads.Wait()
	c.Reclaim(c.budget.Total()+1, AnyDue)
	c.arena.close()
}

// lease adds a lease of an entry that is in memory or being loaded. The caller of this function and
// of those below holds mu.
func (c *Cache[K]) lease(e *entry[K]) {
	if !e.resident() {
		e.refs++
		return
	}
	c.idle.lease(e)
	c.stats.OpenLeases++
}

// unlease ends one lease and reports whether the chunk is idle now.
func (c *Cache[K]) unlease(e *entry[K]) bool {
	if f := e.load.Load(); f != nil {
		if e.refs--; e.refs == 0 && !f.settled {
			c.abandon(f)
		}
		return false
	}
	c.stats.OpenLeases--
	return c.idle.release(e)
}

// unused returns the number of bytes that are free in the budget or in slots.
func (c *Cache[K]) unused() int64 { return c.budget.Total() - c.budget.InUse() + c.freeBytes }

// evict evicts the best chunk to evict for a chunk due at the given time, if there is one and its
// first function still returns true. It passes the slot to take. Both functions are called under
// the lock. evict reports whether it evicted a chunk.
func (c *Cache[K]) evict(due int64, wanted func() bool, take func(*slot)) (went bool) {
	c.mu.Lock()
	wants := wanted()
	c.mu.Unlock()
	if !wants {
		return false
	}
	c.choose(due, func(e *entry[K]) {
		if went = wanted(); !went {
			return
		}
		c.idle.remove(e)
		c.stats.Evictions++
		if e.due <= Soon {
			c.stats.Expected++
		}
		take(c.takeOut(e))
	})
	return went
}

// choose selects the chunk to evict for a chunk due at the given time. If there is one, choose
// calls goes with it under the lock. It queries the tables without the lock, so requests do not
// wait for that.
func (c *Cache[K]) choose(due int64, goes func(*entry[K])) {
	for more := true; more; {
		c.asking.RLock()
		c.mu.Lock()
		choice := c.idle.begin(due)
		c.mu.Unlock()
		choice.ask(next[K])
		c.asking.RUnlock()
		c.mu.Lock()
		var e *entry[K]
		if e, more = c.idle.choose(choice); e != nil {
			goes(e)
		}
		c.mu.Unlock()
	}
}

// takeOut removes a chunk from memory and returns its slot. The chunk is no longer listed as idle.
func (c *Cache[K]) takeOut(e *entry[K]) *slot {
	delete(c.entries, e.key)
	e.gone()
	c.stats.Chunks--
	c.stats.Bytes -= e.slot.class
	if c.debug {
		e.slot.poison()
	}
	return e.slot
}

// takeAny takes any free slot, or returns nil if there is none.
func (c *Cache[K]) takeAny() *slot {
	for class := range c.free {
		return c.takeLast(class)
	}
	return nil
}

// putFree adds a slot to the free slots of its class.
func (c *Cache[K]) putFree(s *slot) {
	if c.debug {
		s.poison()
	}
	c.free[s.class] = append(c.free[s.class], s)
	c.freeBytes += s.cost()
}

// reserve reserves n bytes of a budget, all or none.
type reserve func(n int64) (*budget.Reservation, bool)

// takeSlots finds a slot for each size: suitable free slots, and memory that reserve grants. It
// neither populates nor frees memory; slot.ready does that later. If there is not enough for all
// sizes, it takes nothing, and returns the number of bytes that must be free at the same time.
func (c *Cache[K]) takeSlots(sizes []int64, reserve reserve) (slots []*slot, need int64) {
	slots = make([]*slot, len(sizes))
	var missing int64
	for i, n := range sizes {
		if s := c.takeFree(classOf(n)); s != nil {
			slots[i], s.length = s, n
			need += s.cost()
		} else {
			missing += Cost(n)
		}
	}
	if missing > 0 && !c.make(slots, sizes, missing, reserve) {
		for _, s := range slots {
			if s != nil {
				c.putFree(s)
			}
		}
		return nil, need + missing
	}
	return slots, 0
}

// make creates the missing slots, from bytes that reserve grants and from free slots of other
// classes. It reports whether there is enough.
func (c *Cache[K]) make(slots []*slot, sizes []int64, missing int64, reserve reserve) bool {
	held, ok := reserve(missing)
	if !ok {
		held, ok = reserve(max(missing-c.freeBytes, 0))
	}
	if !ok {
		return false
	}
	var instead []*slot
	for held.Size() < missing {
		s := c.takeAny()
		held.Join(s.held)
		instead = append(instead, s)
	}
	for i, n := range sizes {
		if slots[i] == nil {
			class := classOf(n)
			slots[i] = &slot{class: class, arena: c.arena, length: n, held: held.Split(class + entryCost), instead: instead}
			instead = nil
		}
	}
	held.Release()
	return true
}

// takeFree takes the smallest suitable free slot for a class, or returns nil if there is none.
func (c *Cache[K]) takeFree(class int64) *slot {
	best := int64(-1)
	for have := range c.free {
		if suits(have, class) && (best < 0 || have < best) {
			best = have
		}
	}
	if best < 0 {
		return nil
	}
	return c.takeLast(best)
}

// takeLast takes the most recently used free slot of a class. There must be one.
func (c *Cache[K]) takeLast(class int64) *slot {
	slots := c.free[class]
	s := slots[len(slots)-1]
	if c.free[class] = slots[:len(slots)-1]; len(slots) == 1 {
		delete(c.free, class)
	}
	c.freeBytes -= s.cost()
	return s
}
