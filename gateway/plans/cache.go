package plans

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// maxIdle is the number of unused snapshots, subsets or quarantines that stay open. The next epoch
// of a job usually needs the same ones.
const maxIdle = 2

// maxIdleSubsets is maxIdle for subsets, if they use no more memory than the limit of prepared
// epochs. A mixture has one subset per source, at most 64, and computing one may take seconds.
const maxIdleSubsets = 64

// cache holds plans and epochs, snapshots of weights, subsets or quarantines. It only saves time,
// because any of them can be opened again. Concurrent requests share one value.
//
// Values within the limit in bytes use memory that is reserved already. Of these the cache evicts
// the least recently used ones without users, when another one needs their place. A value beyond
// the limit reserves its own memory, and is closed after its last use unless it then fits within
// the limit, or is one of the most recently used.
type cache[V any] struct {
	what    string // kind of the values, for errors
	size    func(key key) int64
	open    func(ctx context.Context, key key) (V, error)
	reserve func(ctx context.Context, n int64) (Reservation, error)
	held    func(V) int64 // memory of an open value; nil: the same as to open it
	close   func(V) error // nil: there is nothing to close, as for values within the limit
	idle    int           // unused values beyond the limit that stay open
	roomy   func() int64  // bytes that up to maxIdleSubsets unused values may use; nil: none but idle

	mu     sync.Mutex // guards the fields below
	limit  int64
	bytes  int64 // bytes that count towards the limit
	byKey  map[key]*entry[V]
	recent *list.List // *entry, most recently used first
}

// key identifies a value. A cache of one kind uses only some of the fields.
type key struct {
	dataset *Dataset
	name    string         // digest or definition of a snapshot, subset or quarantine; text that identifies a block or divided batch
	params  shuffle.Params // parameters of the plan, or of the plans that use a quarantine
	epoch   uint64
	isEpoch bool  // an epoch rather than the plan itself
	bytes   int64 // memory of a block or divided batch; memory that an epoch uses for batches shared by homes
}

// entry is a value that is opened once for all requests that wait for it. Opening is canceled when
// the last waiting request leaves.
type entry[V any] struct {
	key    key
	done   chan struct{} // closed when the fields below are set
	value  V
	memory Reservation // nil: none
	err    error
	cancel context.CancelFunc

	// Guarded by cache.mu:
	users  int
	within int64         // bytes that count towards the limit; 0: the entry is beyond it
	place  *list.Element // element in recent; nil after removal
}

func newCache[V any](what string, size func(key) int64, open func(context.Context, key) (V, error), reserve func(context.Context, int64) (Reservation, error)) *cache[V] {
	return &cache[V]{what: what, size: size, open: open, reserve: reserve, byKey: map[key]*entry[V]{}, recent: list.New()}
}

// acquire opens the value of a key, or waits for another request that opens it. The value is valid
// until held is dropped.
func (c *cache[V]) acquire(ctx context.Context, held *Holds, k key) (v V, err error) {
	return c.acquireBy(ctx, held, k, c.open)
}

// acquireBy is like acquire, with the function that opens the value. open may run after the caller
// has left, for others that wait: it must acquire all that it uses.
func (c *cache[V]) acquireBy(ctx context.Context, held *Holds, k key, open func(context.Context, key) (V, error)) (v V, err error) {
	e := c.enter(ctx, k, open)
	select {
	case <-e.done:
		v, err = e.value, e.err
	case <-ctx.Done():
		err = fmt.Errorf("open %s: %w", c.named(k), context.Cause(ctx))
	}
	if err != nil {
		c.leave(e)
		return v, err
	}
	*held = append(*held, func() { c.leave(e) })
	return v, nil
}

// named describes a value in errors.
func (c *cache[V]) named(k key) string { return c.what + " " + cmp.Or(k.name, k.params.Shuffle) }

// find acquires a value that is already open, and reports whether it is.
func (c *cache[V]) find(held *Holds, k key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil || !e.isOpen() {
		return false
	}
	e.users++
	*held = append(*held, func() { c.leave(e) })
	return true
}

func (c *cache[V]) enter(ctx context.Context, k key, open func(context.Context, key) (V, error)) *entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil {
		loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e = &entry[V]{key: k, done: make(chan struct{}), cancel: cancel}
		e.place = c.recent.PushFront(e)
		c.byKey[k] = e
		go c.load(loading, e, open)
	}
	c.recent.MoveToFront(e.place)
	e.users++
	return e
}

// load finds or reserves memory for the value of an entry, and opens it. It recovers from a panic,
// because it runs in its own goroutine.
func (c *cache[V]) load(ctx context.Context, e *entry[V], open func(context.Context, key) (V, error)) {
	defer e.cancel()
	defer close(e.done)
	defer func() {
		if v := recover(); v != nil {
			e.err = fmt.Errorf("open %s: panic: %v\n%s", c.named(e.key), v, debug.Stack())
		}
		if e.err != nil && e.memory != nil {
			e.memory.Release()
		}
	}()
	bytes := c.size(e.key)
	if !c.fits(e, bytes) {
		memory, err := c.reserve(ctx, bytes)
		if err != nil {
			e.err = fmt.Errorf("open %s: %w", c.named(e.key), err)
			return
		}
		e.memory = memory
	}
	if e.value, e.err = open(ctx, e.key); e.err == nil && e.memory != nil && c.held != nil {
		e.memory.Shrink(c.held(e.value))
	}
}

func (c *cache[V]) fits(e *entry[V], bytes int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.admit(e, bytes)
}

// admit counts an entry towards the limit, if it fits after the eviction of others without users.
// A single entry always fits. The caller holds mu.
func (c *cache[V]) admit(e *entry[V], bytes int64) bool {
	for at := c.recent.Back(); at != nil && c.bytes+bytes > c.limit; {
		old := at.Value.(*entry[V])
		at = at.Prev()
		if old.users == 0 && old.within > 0 {
			c.remove(old)
		}
	}
	if c.limit == 0 || c.bytes > 0 && c.bytes+bytes > c.limit {
		return false
	}
	if e.place != nil { // it was not forgotten meanwhile
		e.within = bytes
		c.bytes += bytes
	}
	return true
}

// remove removes an entry. The caller holds mu.
func (c *cache[V]) remove(e *entry[V]) {
	if e.place == nil {
		return
	}
	c.recent.Remove(e.place)
	delete(c.byKey, e.key)
	c.bytes -= e.within
	e.place = nil
}

// leave ends one use. After a failure to open, the next request tries again.
func (c *cache[V]) leave(e *entry[V]) {
	_ = c.endAll(c.drop(e)) // closing a file that was only read
}

// drop removes one user of an entry, and returns the entries to close.
func (c *cache[V]) drop(e *entry[V]) (old []*entry[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.users--
	switch {
	case e.users > 0:
		return nil
	case e.place == nil || !e.isOpen():
		c.remove(e)
		return []*entry[V]{e}
	case e.within > 0:
		return nil
	case c.admit(e, c.size(e.key)):
		e.memory.Release()
		e.memory = nil
		return nil
	}
	return c.shrink(c.idle)
}

// shrink removes unused entries beyond the limit, except the most recently used ones: most of them,
// or more of them if there is room. The caller holds mu and closes the removed entries.
func (c *cache[V]) shrink(most int) (old []*entry[V]) {
	left := int64(-1)
	if c.roomy != nil {
		left = c.roomy()
	}
	for at, n := c.recent.Front(), 0; at != nil; {
		e := at.Value.(*entry[V])
		at = at.Next()
		if e.users > 0 || e.within > 0 {
			continue
		}
		if left >= 0 {
			left -= c.held(e.value)
		}
		if n++; n > most && (left < 0 || n > maxIdleSubsets) {
			c.remove(e)
			old = append(old, e)
		}
	}
	return old
}

// forget removes the values of a dataset, and closes those without users; nil: of all datasets.
func (c *cache[V]) forget(d *Dataset) error {
	c.mu.Lock()
	var old []*entry[V]
	for k, e := range c.byKey {
		if d != nil && k.dataset != d {
			continue
		}
		if c.remove(e); e.users == 0 && e.within == 0 {
			old = append(old, e)
		}
	}
	c.mu.Unlock()
	return c.endAll(old)
}

// endAll cancels attempts to open, and closes open values. No request uses the entries any more.
func (c *cache[V]) endAll(old []*entry[V]) error {
	var faults []error
	for _, e := range old {
		e.cancel()
		<-e.done
		if e.err != nil {
			continue // its users have received the error
		}
		if e.memory != nil {
			e.memory.Release()
		}
		if c.close == nil {
			continue
		}
		if err := c.close(e.value); err != nil {
			faults = append(faults, fmt.Errorf("close %s: %w", e.key.name, err))
		}
	}
	return errors.Join(faults...)
}

// isOpen reports whether opening has succeeded.
func (e *entry[V]) isOpen() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// allow sets the limit.
func (c *cache[V]) allow(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
}

// use returns the limit, and the bytes that count towards it.
func (c *cache[V]) use() (limit, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit, c.bytes
}
