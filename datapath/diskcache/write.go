package diskcache

import (
	"fmt"
	"hash/crc32"
	"time"
)

// Write keeps a chunk, which its owner knows by ref, if there is room or room worth making. It returns once the chunk is
// on the medium, or somebody else is at it, and reports whether it was not refused; data must not change meanwhile.
func (c *Cache) Write(key Key, ref uint64, data []byte) bool {
	if int64(len(data)) != key.Length || crc32.Checksum(data, castagnoli()) != key.CRC32C {
		return false
	}
	n := key.name()
	temp, there, ok := c.claim(n)
	if !ok {
		return there
	}
	need := Cost(key.Length)
	c.writing.Add(need)
	defer c.writing.Add(-need)
	made, err := c.makeRoom(need, ref)
	if !made {
		c.end(n, entry{}, 0, err)
		return false
	}
	err = c.disk.write(temp, data, key.appendFooter(nil))
	if err == nil {
		if err = c.disk.rename(temp, n.file()); err != nil {
			_ = c.disk.remove(temp)
		}
	}
	c.end(n, entry{size: need, ref: ref}, len(data), err)
	return err == nil
}

// claim makes a chunk the caller's to write, under a temporary name. It does not if the chunk is there, if somebody
// is at it, or if the disk is not to be written to.
func (c *Cache) claim(n name) (temp string, there, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, found := c.entries[n]; found && !e.dead || c.busy[n] {
		return "", true, false
	}
	if c.pauses.writes.Paused(all, time.Now()) {
		c.stats.Skipped++
		return "", false, false
	}
	c.busy[n] = true
	c.temp++
	return fmt.Sprintf("%s.%d.tmp", n.file(), c.temp), false, true
}

// end ends a write: e is what was to be written, and its room was taken; of no size if no room was made, for an error
// or for there is none.
func (c *Cache) end(n name, e entry, bytes int, err error) {
	if e.size > 0 || err != nil { // else the disk was not touched
		defer func() { c.noted("writes", c.pauses.writes, err) }()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, n)
	switch {
	case e.size == 0 && err == nil:
		c.stats.Refused++
	case e.size == 0: // what was to go could not be removed, and is counted
	case err != nil:
		c.stats.WriteErrors++
		c.bytes -= e.size
	default:
		c.forget(n) // one that could not be removed, and is overwritten now
		e.nth = uint32(c.temp)
		c.entries[n] = e
		c.stats.Writes++
		c.stats.WriteBytes += uint64(bytes)
	}
}
