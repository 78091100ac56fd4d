package chunkcache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/millrace-data/millrace/internal/budget"
)

// Objects keeps small values that can be made again at any time, such as sample tables, within a
// number of bytes and under a budget. The least recently used go first. It is safe for
// concurrent use.
type Objects[K comparable, V any] struct {
	budget *budget.Budget
	max    int64
	size   func(V) int64
	room   func(n int64) // called without a lock

	mu    sync.Mutex // guards what follows
	list  *simplelru.LRU[K, object[V]]
	bytes int64
}

type object[V any] struct {
	value V
	held  *budget.Reservation
}

// objectCost is what an object costs beside its bytes: reservation, list node and map cell, 154 bytes measured.
const objectCost = 160

// NewObjects returns an empty store of at most maxBytes, where size says how many bytes a value holds. room
// may give n bytes of the budget back, when there are none left for a value.
func NewObjects[K comparable, V any](b *budget.Budget, maxBytes int64, size func(V) int64, room func(n int64)) *Objects[K, V] {
	o := &Objects[K, V]{budget: b, max: maxBytes, size: size, room: room}
	list, err := simplelru.NewLRU(math.MaxInt, func(_ K, v object[V]) {
		o.bytes -= v.held.Size()
		v.held.Release()
	})
	if err != nil {
		panic(err) // only for a size of 0
	}
	o.list = list
	return o
}

// Get returns the value kept under key.
func (o *Objects[K, V]) Get(key K) (V, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, ok := o.list.Get(key)
	return v.value, ok
}

// Add keeps a value if there is room for it. The first one kept under a key stays.
func (o *Objects[K, V]) Add(key K, value V) {
	n := o.size(value) + objectCost
	if o.add(key, value, n, false) || o.budget.Waiting() > 0 { // what is given up would go to those who wait
		return
	}
	o.room(n)
	o.add(key, value, n, true)
}

// add keeps a value if there are n bytes for it, those of the oldest values if instead is set. It reports
// whether nothing remains to be tried.
func (o *Objects[K, V]) add(key K, value V, n int64, instead bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n > o.max || o.list.Contains(key) {
		return true
	}
	for o.bytes+n > o.max {
		o.list.RemoveOldest()
	}
	held, ok := o.budget.TryReserve(n)
	if !ok && instead && o.bytes >= n {
		for before := o.bytes; before-o.bytes < n; {
			o.list.RemoveOldest()
		}
		held, ok = o.budget.TryReserve(n)
	}
	if ok {
		o.bytes += n
		o.list.Add(key, object[V]{value, held})
	}
	return ok
}

// Drop drops the values of some keys. Others may be asked for meanwhile.
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

// Bytes returns what the values hold.
func (o *Objects[K, V]) Bytes() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

// Reclaim gives at least n bytes back if it can, and returns how many.
func (o *Objects[K, V]) Reclaim(n int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.bytes
	for before-o.bytes < n {
		if _, _, any := o.list.RemoveOldest(); !any {
			break
		}
	}
	return before - o.bytes
}
