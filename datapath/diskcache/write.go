package diskcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Write stores a chunk if there is space, or if evicting other chunks for it is worthwhile. ref is
// the owner's reference, and the caller has verified data against key. Write returns once the chunk
// is synced, or at once if another goroutine is writing it. It reports whether the chunk was
// accepted. It also returns when ctx ends, and after Stall if the disk hangs. data must not change
// until Write returns; it is not read afterwards.
func (c *Cache) Write(ctx context.Context, key Key, ref uint64, data []byte) bool {
	if int64(len(data)) != key.Length {
		return false
	}
	err := c.writes.do(ctx, func(m *memory) error { return c.write(key, ref, data, m) })
	if errors.Is(err, errHangs) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Skipped++
	}
	return err == nil
}

// write writes a chunk, unless it is on disk already.
func (c *Cache) write(key Key, ref uint64, data []byte, m *memory) error {
	n := key.name()
	temp, err := c.claim(n)
	if temp == "" {
		return err
	}
	need := Cost(key.Length)
	c.writing.Add(need)
	defer c.writing.Add(-need)
	made, err := c.makeRoom(need, ref)
	if !made {
		c.end(n, entry{}, 0, err)
		return errRefused
	}
	err = c.disk.write(temp, func(add func([]byte) error) error {
		for part := range slices.Chunk(data, len(m.block)) {
			b := m.block[:len(part)]
			if err := m.copy(b, part); err != nil {
				return err
			}
			if err := add(b); err != nil {
				return err
			}
		}
		return add(key.appendFooter(nil))
	})
	if err == nil {
		if err = c.disk.rename(temp, n.file()); err != nil {
			_ = c.disk.remove(temp)
		}
	}
	c.end(n, entry{size: need, ref: ref}, len(data), err)
	return err
}

// errRefused reports that a chunk is not kept.
var errRefused = errors.New("not kept")

// claim reserves a chunk for its writer, and returns the name of a temporary file. The name is
// empty if the chunk is on disk or another goroutine is writing or removing it. claim returns an
// error if writes are off.
func (c *Cache) claim(n name) (temp string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, found := c.entries[n]; found && !e.dead || c.busy[n] {
		return "", nil
	}
	if c.writes.off() {
		c.stats.Skipped++
		return "", errRefused
	}
	c.busy[n] = true
	c.temp++
	return fmt.Sprintf("%s.%d.tmp", n.file(), c.temp), nil
}

// end ends a write of entry e. The size of e is 0 if no space was reserved for it, because of an
// error or because there is none.
func (c *Cache) end(n name, e entry, bytes int, err error) {
	if e.size > 0 || err != nil { // otherwise the disk was not used
		defer func() { c.writes.noted(err) }()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, n)
	switch {
	case e.size == 0 && err == nil:
		c.stats.Refused++
	case e.size == 0: // a victim could not be removed, which has already been counted
	case err != nil:
		if !errors.Is(err, errLeft) {
			c.stats.WriteErrors++
		}
		c.bytes -= e.size
	default:
		c.forget(n) // the old file could not be removed, and is overwritten now
		e.nth = uint32(c.temp)
		c.entries[n] = e
		c.stats.Writes++
		c.stats.WriteBytes += uint64(bytes)
	}
}
