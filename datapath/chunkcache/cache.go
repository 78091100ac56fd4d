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

// Config of a Cache. The zero value of a field means its default.
type Config struct {
	Budget *budget.Budget // all memory is reserved in it
	Debug  bool           // for tests: poison freed slots, and panic at a lease closed twice
}

// Cache holds chunks by key. It is safe for concurrent use.
type Cache[K comparable] struct {
	budget *budget.Budget
	debug  bool
	arena  *arena
	loads  sync.WaitGroup
	asking sync.RWMutex // held for reading while tables are asked when chunks are due; mu may be locked meanwhile

	mu        sync.Mutex      // guards the fields below, and the fields of entries and fills
	entries   map[K]*entry[K] // in memory, or being loaded for a request that waits
	idle      idle[K]
	free      map[int64][]*slot
	freeBytes int64
	stats     Stats
}

// Stats is a snapshot of a cache's counters and sizes. Lookups of a prefetch count as loads, never
// as hits or misses.
type Stats struct {
	Hits      uint64 // found in memory
	Misses    uint64 // loaded, or joined to a load
	Loads     uint64
	Joins     uint64 // joined a running load
	Failures  uint64 // loads that ended in an error
	Evictions uint64
	Expected  uint64 // of these, chunks that a reader needed soon
	HitBytes  uint64
	LoadBytes uint64

	Chunks      int64 // in memory
	Bytes       int64 // of their slots
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
// may be evicted for a chunk due at the given time. It returns the bytes.
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

// makeRoom evicts chunks for one due at the given time until n bytes are free, in the budget or in
// slots. It evicts none if all idle chunks together are not enough. It reports whether it evicted
// any.
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

// Free returns the bytes of the slots without a chunk.
func (c *Cache[K]) Free() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeBytes
}

// Idle returns the bytes of the chunks without a lease.
func (c *Cache[K]) Idle() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.idle.bytes
}

// Goes reports whether some chunk may be evicted for one due at the given time.
func (c *Cache[K]) Goes(due int64) (goes bool) {
	c.choose(due, func(*entry[K]) { goes = true })
	return goes
}

// Populate provides memory for a chunk of n bytes before its load needs it, which is a quarter of a
// first load's CPU time. It reports whether there may be room for another chunk: it takes no memory
// that is needed now. Small chunks are in Go's heap, so it does nothing for them.
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

// lease adds a lease of an entry, in memory or being loaded. The caller of this function and of
// those below holds mu.
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

// unused returns the bytes that are free in the budget or in slots.
func (c *Cache[K]) unused() int64 { return c.budget.Total() - c.budget.InUse() + c.freeBytes }

// evict evicts the first chunk to evict for one due at the given time, and passes its slot to take,
// if there is one and the condition still holds. Both functions are called under the lock. It
// reports whether it evicted a chunk.
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

// choose selects the chunk to evict for one due at the given time, and calls goes with it under the
// lock, unless there is none. It asks the tables without the lock, so requests do not wait for
// that.
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

// takeAny takes any free slot; nil: there is none.
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
// populates and frees no memory: the slots do so when they are made ready. If there is not enough
// for all, it takes nothing and returns how many bytes must be free at once.
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

// make makes the missing slots, from bytes that reserve grants and from free slots of other
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

// takeFree takes the smallest suitable free slot for a class; nil: there is none.
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
