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
	Budget *budget.Budget // where every byte is reserved
	// Due says when a chunk is needed next: see Soon; nil: Never. It runs under the cache's lock, for
	// some chunks before one of them goes: it must be quick, must not call the cache, and must not
	// wait for a lock that is held while the cache is called.
	Due func(K) int64
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
	Expected  uint64 // of these, chunks that a reader was coming for soon
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
	return &Cache[K]{
		budget: cfg.Budget,
		debug:  cfg.Debug,
		shelf:  NewShelf(cfg.Due, cfg.Evicted),
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

// Reclaim gives at least n bytes of the budget back if it can: free slots first, then idle chunks
// that go for what is due then. It returns the bytes.
func (c *Cache[K]) Reclaim(n, due int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	back := c.shrink(n)
	for back < n {
		s := c.evict(c.shelf.next(due))
		if s == nil {
			break
		}
		back += s.cost()
		s.drop()
	}
	return back
}

// Free returns the bytes of the slots without a chunk.
func (c *Cache[K]) Free() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freeBytes
}

// Idle returns the bytes of the chunks that nobody holds.
func (c *Cache[K]) Idle() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shelf.Idle()
}

// Goes reports whether some chunk would go for one that is due at a time.
func (c *Cache[K]) Goes(due int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shelf.Goes(due)
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
	c.Reclaim(c.budget.Total()+1, Whatever)
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

// evict forgets a chunk that the shelf has chosen, and returns its slot; nil where it has chosen none.
func (c *Cache[K]) evict(e *entry[K]) *slot {
	if e == nil {
		return nil
	}
	c.shelf.drop(e)
	c.stats.Evictions++
	if e.due <= Soon {
		c.stats.Expected++
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

// takeSlots finds a slot for each size, or for none of them: in free memory, and in that of chunks
// that go for what is due then.
func (c *Cache[K]) takeSlots(sizes []int64, due int64) []*slot {
	var need int64
	for _, n := range sizes {
		need += Cost(n)
	}
	var going []*entry[K]
	if need -= c.budget.Total() - c.budget.InUse() + c.freeBytes; need > 0 {
		if going = c.shelf.choose(need, due); going == nil {
			return nil // do not evict for what cannot succeed
		}
	}
	next := func() (e *entry[K]) {
		if len(going) == 0 {
			return c.shelf.next(due)
		}
		e, going = going[0], going[1:]
		return e
	}
	defer func() { c.shelf.restore(going) }()
	slots := make([]*slot, 0, len(sizes))
	for _, n := range sizes {
		s := c.takeSlot(classOf(n), c.budget.TryReserve, next)
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

// takeSlot finds one slot: a free one, new memory as reserve grants it, or that of the chunks that next
// names.
func (c *Cache[K]) takeSlot(class int64, reserve func(n int64) (*budget.Reservation, bool), next func() *entry[K]) *slot {
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
		s := c.evict(next())
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
