package chunkcache

// Leases holds the chunks of one request. Their bytes do not change until they are closed. It
// belongs to one goroutine at a time.
type Leases[K comparable] struct {
	cache   *Cache[K]
	entries []*entry[K] // nil: closed
	closed  bool
}

// Bytes returns the chunk that the request wanted at place i: read only, until Close.
func (l *Leases[K]) Bytes(i int) []byte {
	return l.entries[i].slot.bytes()
}

// Instead returns n bytes for a copy of what is needed of the chunk at place i, so that its lease can be dropped. Those
// who wait for memory are passed: they get more of it back. It returns false where there is no memory now, or where
// none would come back even if all who hold the chunk copied as much.
func (l *Leases[K]) Instead(i int, n int64) (*Buffer[K], bool) {
	c, e := l.cache, l.entries[i]
	c.mu.Lock()
	gains := Cost(n)*int64(e.refs) < e.cost
	c.mu.Unlock()
	if !gains {
		return nil, false
	}
	return c.tryBuffer(n, c.budget.TrySwap, false)
}

// Drop ends the lease of the chunk at place i, if that has not been done.
func (l *Leases[K]) Drop(i int) {
	c, e := l.cache, l.entries[i]
	if e == nil {
		return
	}
	l.entries[i] = nil
	c.mu.Lock()
	idle := c.unlease(e)
	c.mu.Unlock()
	if idle {
		c.budget.Nudge()
	}
}

// Holds reports whether the chunk at place i is leased still.
func (l *Leases[K]) Holds(i int) bool { return l.entries[i] != nil }

// Close ends the leases. A second call does nothing, or panics where the cache runs in debug mode.
func (l *Leases[K]) Close() {
	c := l.cache
	if l.closed {
		if c.debug {
			panic("chunkcache: leases closed twice")
		}
		return
	}
	l.closed = true
	idle := false
	c.mu.Lock()
	for i, e := range l.entries {
		if e != nil {
			idle = c.unlease(e) || idle
			l.entries[i] = nil
		}
	}
	c.mu.Unlock()
	if idle {
		c.budget.Nudge()
	}
}
