package chunkcache

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/millrace-data/millrace/internal/budget"
)

// Objects caches small values that can be computed again at any time, such as sample tables, within
// a number of bytes and under a budget. It first evicts values that were not used since they were
// last considered, the least recently used one first. It is safe for concurrent use, and Get takes
// no lock.
type Objects[K comparable, V any] struct {
	budget *budget.Budget
	max    int64
	size   func(V) int64
	room   func(n int64) // called while no lock is held

	values sync.Map // map of K to *object[V], with the values in list

	mu    sync.Mutex // guards the fields below
	list  *simplelru.LRU[K, *object[V]]
	bytes int64
}

type object[V any] struct {
	value V
	held  *budget.Reservation
	used  atomic.Bool // used since it was added or last considered
}

// objectCost is the overhead of an object in addition to its bytes: reservation, list node and two
// map cells. 337 bytes were measured.
const objectCost = 340

// NewObjects returns an empty cache of at most maxBytes. size returns the number of bytes of a
// value. room frees n bytes of the budget if it can; it is called when there is too little memory
// for a value.
func NewObjects[K comparable, V any](b *budget.Budget, maxBytes int64, size func(V) int64, room func(n int64)) *Objects[K, V] {
	o := &Objects[K, V]{budget: b, max: maxBytes, size: size, room: room}
	list, err := simplelru.NewLRU(math.MaxInt, func(k K, v *object[V]) {
		o.values.Delete(k)
		o.bytes -= v.held.Size()
		v.held.Release()
	})
	if err != nil {
		panic(err) // an error is possible only for a size of 0
	}
	o.list = list
	return o
}

// Get returns the value for key.
func (o *Objects[K, V]) Get(key K) (V, bool) {
	found, ok := o.values.Load(key)
	if !ok {
		var none V
		return none, false
	}
	v := found.(*object[V])
	if !v.used.Load() { // unconditional stores by many readers would contend for one cache line
		v.used.Store(true)
	}
	return v.value, true
}

// Add stores a value if there is room for it. If the key already has a value, that value stays.
func (o *Objects[K, V]) Add(key K, value V) {
	n := o.size(value) + objectCost
	if o.add(key, value, n, false) || o.budget.Waiting() > 0 { // freed bytes would go to waiting callers
		return
	}
	o.room(n)
	o.add(key, value, n, true)
}

// add stores a value if n bytes are free. If instead is set, it evicts the oldest values to free
// them. It reports whether no further attempt is needed.
func (o *Objects[K, V]) add(key K, value V, n int64, instead bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > o.max || o.list.Contains(key) {
		return true
	}
	for o.bytes+n > o.max {
		o.removeOldest()
	}
	held, ok := o.budget.TryReserve(n)
	if !ok && instead && o.bytes >= n {
		for before := o.bytes; before-o.bytes < n; {
			o.removeOldest()
		}
		held, ok = o.budget.TryReserve(n)
	}
	if ok {
		v := &object[V]{value: value, held: held}
		o.bytes += n
		o.list.Add(key, v)
		o.values.Store(key, v)
	}
	return ok
}

// removeOldest evicts a value, and reports whether there was any. A value that was used since it
// was last considered is not evicted, but becomes the newest one (CLOCK: Corbato, A Paging
// Experiment with the Multics System, 1968). The caller holds mu.
func (o *Objects[K, V]) removeOldest() bool {
	for {
		k, v, any := o.list.GetOldest()
		if !any {
			return false
		}
		if !v.used.Swap(false) {
			return o.list.Remove(k)
		}
		o.list.Get(k)
	}
}

// Drop removes the values of all keys for which the function returns true. Other keys may be used
// meanwhile.
func (o *Objects[K, V]) Drop(which func(K) bool) {
	o.mu.Lock()
	keys := o.list.Keys()
	o.mu.Unlock()
	for _, k := range keys {
		if which(k) {
			o.mu.Lock()
			o.list.Remove(k)
			o.mu.Unlock()
		}
	}
}

// Bytes returns the number of bytes that the values take.
func (o *Objects[K, V]) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// Reclaim frees at least n bytes if it can, and returns the number of bytes freed.
func (o *Objects[K, V]) Reclaim(n int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	for before-o.bytes < n && o.removeOldest() {
	}
	return before - o.bytes
}
