package diskcache

import "context"

// Reject removes a chunk that failed a stronger check than its CRC, such as SHA-256.
func (c *Cache) Reject(ctx context.Context, key Key) {
	c.mu.Lock()
	c.stats.Corrupt++
	c.mu.Unlock()
	_ = c.writes.do(ctx, func(*memory) error { // if the disk hangs, the chunk stays, and its next reader rejects it again
		c.drop(key.name())
		return nil
	})
}

// drop removes a corrupt file.
func (c *Cache) drop(n name) {
	if err := c.evict(n, true); err != nil {
		c.writes.noted(err)
	}
}

// evict removes a file and frees its space, unless another goroutine is writing or removing it. A
// file that cannot be removed remains readable unless wrong is set.
func (c *Cache) evict(n name, wrong bool) error {
	c.mu.Lock()
	e, ok := c.entries[n]
	ok = ok && !c.busy[n]
	if ok {
		e.dead = true
		c.entries[n] = e
		c.busy[n] = true
	}
	c.mu.Unlock()
	if !ok {
		return nil
	}
	err := c.disk.remove(n.file())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, n)
	if err != nil {
		c.stats.WriteErrors++
		e = c.entries[n] // it may have been adopted in the meantime
		e.dead, e.stays = wrong, true
		c.entries[n] = e
		return err
	}
	c.forget(n)
	if !wrong {
		c.stats.Evictions++
	}
	return nil
}

// forget removes a file from the list. The caller holds mu.
func (c *Cache) forget(n name) {
	if e, ok := c.entries[n]; ok && !c.busy[n] {
		c.bytes -= e.size
		delete(c.entries, n)
	}
}
