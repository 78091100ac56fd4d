package chunkcache

// Leases holds the chunks of one request. Their bytes do not change until they are closed. It
// belongs to one goroutine at a time.
type Leases[K comparable] struct {
	cache   *Cache[K]
	entries []*entry[K] // nil: closed
	closed  bool
}

// Bytes returns chunk i of the request. The bytes are read-only, and valid until Close.
func (l *Leases[K]) Bytes(i int) []byte {
	return l.entries[i].slot.bytes()
}

// Instead returns n bytes for a copy of the needed part of chunk i, so that its lease can be
// dropped. It takes precedence over callers that wait for memory, since dropping the lease frees
// more memory. It returns false if there is no memory now. It also returns false if nothing would
// be gained even if all holders of the chunk copied as much.
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

// Drop ends the lease of chunk i, if it is open.
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

// Holds reports whether chunk i is still leased.
func (l *Leases[K]) Holds(i int) bool { return l.entries[i] != nil }

// Close ends the leases. A second call does nothing, or panics in debug mode.
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
