package chunkcache

import (
	"errors"
	"sync"

	"github.com/millrace-data/millrace/internal/budget"
)

// ErrNoRoom says that there is no room now for all chunks asked for together.
var ErrNoRoom = errors.New("no room in the cache")

// errAborted is what waiters get when a load ends without saying how.
var errAborted = errors.New("load ended without a result")

// Config of a Cache. The zero value of a field means its default.
type Config[K comparable] struct {
	Budget *budget.Budget   // where every byte is reserved
	Policy func() Policy[K] // what goes first, NewLRU; called twice: see NewShelf
	// Evicted is told of each key that is not in memory any more, nor on its way there: its chunk was evicted, or its
	// load ended without one. So what is kept about a key from before its chunk is published can be forgotten
	// here. It runs under the cache's lock: it must be quick and must not call the cache.
	Evicted func(K)
	Debug   bool // poison freed slots, panic at a lease closed twice: for tests
}

// Cache holds chunks by key. It is safe for concurrent use.
type Cache[K comparable] struct {
	budget *budget.Budget
	debug  bool
	loads  sync.WaitGroup

	mu        sync.Mutex // guards what follows and the fields of entries and calls
	shelf     *Shelf[K]
	wanted    func(K) bool   // the last one that SetWarm or Rewarm was given
	calls     map[K]*call[K] // loads that somebody waits for
	free      map[int64][]*slot
	freeBytes int64
	stats     Stats
}

// Stats is a snapshot of a cache's counters and sizes. Lookups made ahead of a reader count
// as loads, never as hits or misses.
type Stats struct {
	Hits      uint64 // found in memory
	Misses    uint64 // loaded, or joined to a load
	Loads     uint64
	Joins     uint64 // joined to a load that was on its way
	Failures  uint64 // loads that ended in an error
	Evictions uint64
	Warm      uint64 // of these, chunks that a reader was coming for: somebody else had to have the bytes
	HitBytes  uint64
	LoadBytes uint64

	Chunks      int64 // in memory
	Bytes       int64 // of their slots
	FreeBytes   int64 // mapped slots without a chunk
	OpenLeases  int64
	LoadsActive int64
}

// New returns an empty cache.
func New[K comparable](cfg Config[K]) *Cache[K] {
	if cfg.Policy == nil {
		cfg.Policy = NewLRU[K]
	}
	return &Cache[K]{
		budget: cfg.Budget,
		debug:  cfg.Debug,
		shelf:  NewShelf(cfg.Policy, cfg.Evicted),
		wanted: func(K) bool { return false },
		calls:  map[K]*call[K]{},
		free:   map[int64][]*slot{},
	}
}

// Stats returns the counters.
func (c *Cache[K]) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Chunks = int64(c.shelf.Len())
	s.FreeBytes = c.freeBytes
	return s
}

// Contains reports whether key is in memory, or on its way there.
func (c *Cache[K]) Contains(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shelf.Has(key) || c.calls[key] != nil
}

// Resident reports whether key is in memory.
func (c *Cache[K]) Resident(key K) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shelf.Has(key)
}

// SetWarm says that the readers have changed, and which chunks they come for soon: these stay while others can go. A policy that knows
// of the readers works out anew when they need the others. A chunk that comes later is asked about when it has come: wanted is kept, called
// under the cache's lock, and must not change its mind.
func (c *Cache[K]) SetWarm(wanted func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = wanted
	c.shelf.SetWarm(wanted)
}

// Rewarm is SetWarm where only the answers for some keys have changed: no policy is asked to look at the others.
func (c *Cache[K]) Rewarm(wanted func(K) bool, changed []K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = wanted
	c.shelf.Rewarm(wanted, changed)
}

// Reclaim gives at least n bytes of the budget back if it can: free slots first, then
// chunks that nobody holds a lease on, and those that a reader is coming for only if warm is set. It
// returns the bytes.
func (c *Cache[K]) Reclaim(n int64, warm bool) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := c.shrink(n)
	for back < n {
		s := c.evict(warm)
		if s == nil {
			break
		}
		back += s.cost()
		s.drop()
	}
	return back
}

// Reclaimable returns the bytes that Reclaim could give back now.
func (c *Cache[K]) Reclaimable() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeBytes + c.shelf.Idle(true)
}

// Spare returns the bytes that a load could have now: free slots, and chunks that nobody holds a lease on and no reader
// is coming for.
func (c *Cache[K]) Spare() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeBytes + c.shelf.Idle(false)
}

// Populate maps memory for a chunk of n bytes before its load needs it, which is a quarter of what a first load
// costs the processor. It reports whether there may be room for another: what somebody else needs now is not taken.
// Small chunks live in Go's heap, so nothing is mapped for them.
func (c *Cache[K]) Populate(n int64) bool {
	class := classOf(n)
	if class <= heapClass {
		return true
	}
	held, ok := c.budget.TryReserve(class + entryCost)
	if !ok {
		return false
	}
	s := &slot{class: class, held: held}
	if s.ready() != nil {
		s.drop()
		return false
	}
	c.mu.Lock()
	c.putFree(s)
	c.mu.Unlock()
	c.budget.Nudge()
	return true
}

// Wait returns when no load is running any more.
func (c *Cache[K]) Wait() { c.loads.Wait() }

// Drop waits for the loads and gives back all that is not leased.
func (c *Cache[K]) Drop() {
	c.loads.Wait()
	c.Reclaim(c.budget.Total()+1, true)
}

// lease holds an entry. The caller holds mu, as in all that follows.
func (c *Cache[K]) lease(e *entry[K]) {
	c.shelf.lease(e)
	c.stats.OpenLeases++
}

// unlease ends one lease and reports whether the chunk can go now.
func (c *Cache[K]) unlease(e *entry[K]) bool {
	c.stats.OpenLeases--
	return c.shelf.release(e)
}

// evict takes the chunk that should go first out of memory and returns its slot, nil when none can go.
func (c *Cache[K]) evict(warm bool) *slot {
	e := c.shelf.evict(warm)
	if e == nil {
		return nil
	}
	c.stats.Evictions++
	if e.warm {
		c.stats.Warm++
	}
	c.stats.Bytes -= e.slot.class
	if c.debug {
		e.slot.poison()
	}
	return e.slot
}

// shrink unmaps free slots until n bytes are given back, and returns the bytes.
func (c *Cache[K]) shrink(n int64) int64 {
	var back int64
	for class, slots := range c.free {
		for len(slots) > 0 && back < n {
			s := slots[len(slots)-1]
			slots = slots[:len(slots)-1]
			c.freeBytes -= s.cost()
			back += s.cost()
			s.drop()
		}
		if c.free[class] = slots; len(slots) == 0 {
			delete(c.free, class)
		}
		if back >= n {
			break
		}
	}
	return back
}

// putFree keeps a slot for the next chunk of its class.
func (c *Cache[K]) putFree(s *slot) {
	if c.debug {
		s.poison()
	}
	c.free[s.class] = append(c.free[s.class], s)
	c.freeBytes += s.cost()
}

// takeSlots finds a slot for each size, or for none of them. No chunk goes for them that a reader is coming for.
func (c *Cache[K]) takeSlots(sizes []int64) []*slot {
	var need int64
	for _, n := range sizes {
		need += Cost(n)
	}
	if need > c.budget.Total()-c.budget.InUse()+c.freeBytes+c.shelf.Idle(false) {
		return nil // do not evict for what cannot succeed
	}
	slots := make([]*slot, 0, len(sizes))
	for _, n := range sizes {
		s := c.takeSlot(classOf(n), c.budget.TryReserve)
		if s == nil {
			for _, s := range slots {
				c.putFree(s)
			}
			return nil
		}
		slots = append(slots, s)
	}
	return slots
}

// takeSlot finds one slot: a free one, new memory as reserve grants it, or that of chunks that can go.
func (c *Cache[K]) takeSlot(class int64, reserve func(n int64) (*budget.Reservation, bool)) *slot {
	for {
		if s := c.takeFree(class); s != nil {
			return s
		}
		if held, ok := reserve(class + entryCost); ok {
			return &slot{class: class, held: held}
		}
		if c.shrink(class+entryCost) > 0 {
			continue
		}
		s := c.evict(false)
		if s == nil {
			return nil
		}
		if suits(s.class, class) {
			return s
		}
		s.drop()
	}
}

// takeFree takes the smallest free slot that suits a class, nil if there is none.
func (c *Cache[K]) takeFree(class int64) *slot {
	best := int64(-1)
	for have, slots := range c.free {
		if len(slots) > 0 && suits(have, class) && (best < 0 || have < best) {
			best = have
		}
	}
	if best < 0 {
		return nil
	}
	slots := c.free[best]
	s := slots[len(slots)-1]
	if c.free[best] = slots[:len(slots)-1]; len(slots) == 1 {
		delete(c.free, best)
	}
	c.freeBytes -= s.cost()
	return s
}
