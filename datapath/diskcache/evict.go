package diskcache

import "context"

// Reject removes a chunk that its reader found wrong by a better proof than a CRC.
func (c *Cache) Reject(ctx context.Context, key Key) {
	c.mu.Lock()
	c.stats.Corrupt++
	c.mu.Unlock()
	_ = c.writes.do(ctx, func(*memory) error { // while the disk hangs the chunk stays, and its next reader finds it wrong too
		c.drop(key.name())
		return nil
	})
}

// drop removes a wrong file.
func (c *Cache) drop(n name) {
	if err := c.evict(n, true); err != nil {
		c.writes.noted(err)
	}
}

// evict removes a file and then gives its room free, unless somebody else is at it or was faster. One that cannot be
// removed goes on to answer, unless it is wrong.
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
		e = c.entries[n] // it may have got an owner
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

// forget takes a file off the list. The caller holds mu.
func (c *Cache) forget(n name) {
	if e, ok := c.entries[n]; ok && !c.busy[n] {
		c.bytes -= e.size
		delete(c.entries, n)
	}
}
