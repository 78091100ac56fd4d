package chunkcache

// Leases holds the chunks of one request. Their bytes do not change until they are closed. It
// belongs to one goroutine at a time.
type Leases[K comparable] struct {
	cache   *Cache[K]
	entries []*entry[K] // nil: closed
	closed  bool
}

// Len returns how many chunks the request had.
func (l *Leases[K]) Len() int { return len(l.entries) }

// Bytes returns the chunk that the request wanted at place i: read only, until Close.
func (l *Leases[K]) Bytes(i int) []byte {
	return l.entries[i].data()
}

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
