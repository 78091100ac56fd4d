package diskcache

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// lookedAt is the minimum number of chunks considered for eviction, as in memory. Of 32
	// random chunks, at least one is nearly always among the tenth that is needed last.
	// Considering one chunk takes about a microsecond.
	lookedAt = 32
	// lookedBytes gives the minimum total size of those chunks, as a multiple of the bytes to
	// evict.
	lookedBytes = 4
	roomAgain   = 64 // divisor of MaxBytes: with that many bytes free, the file system no longer counts as full
)

// victim is a candidate for eviction.
type victim struct {
	name name
	size int64
	ref  uint64
	next time.Duration
}

// worth reports whether a new chunk should replace one on disk. The arguments are the times until
// the next use of each. Exchanging two chunks that are both needed saves no read by itself, unless
// the space serves a third chunk in between. So the replaced chunk must be needed at least twice as
// late.
func worth(coming, there time.Duration) bool {
	return coming != Never && (there == Never || there/2 >= coming)
}

// makeRoom reserves space for a chunk: free space, or the space of chunks that are needed much
// later or never again.
func (c *Cache) makeRoom(need int64, ref uint64) (bool, error) {
	if need > c.cfg.MaxBytes {
		return false, nil
	}
	// Checked only once, since some file systems free the space of a removed file with a delay.
	missing := c.lacking(need)
	for {
		if missing > 0 {
			chosen := c.choose(missing, ref)
			for _, v := range chosen {
				if err := c.evict(v.name, false); err != nil {
					return false, err
				}
			}
			if chosen == nil {
				return false, nil
			}
		}
		if missing = c.take(need); missing <= 0 {
			return true, nil
		}
	}
}

// lacking returns how many bytes the file system lacks for a chunk. It reports to Tell when other
// files leave less space than MaxBytes allows, and when there is enough space again.
func (c *Cache) lacking(need int64) int64 {
	wanted := c.writing.Load() // includes concurrent writes, for which the same space still counts as free
	_, free, err := c.space(c.cfg.Dir)
	if err != nil { // the write will report it
		return 0
	}
	c.mu.Lock()
	allowed := c.bytes+need <= c.cfg.MaxBytes
	turned := !c.crowded && free < wanted && allowed || c.crowded && free-wanted >= c.cfg.MaxBytes/roomAgain
	c.crowded = c.crowded != turned
	crowded := c.crowded
	c.mu.Unlock()
	switch {
	case turned && crowded:
		c.tell("additions", fmt.Errorf("the file system is full: %d bytes are free", free))
	case turned:
		c.tell("additions", nil)
	}
	return wanted - free
}

// take reserves space if there is enough; otherwise it returns how many bytes are missing.
func (c *Cache) take(need int64) (missing int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if missing = c.bytes + need - c.cfg.MaxBytes; missing <= 0 && len(c.entries)+len(c.busy) > maxFiles {
		return 1
	}
	if missing <= 0 {
		c.bytes += need
	}
	return missing
}

// choose returns chunks of at least n bytes in total that are worth less than the new one, or nil
// if there are none.
func (c *Cache) choose(n int64, ref uint64) []victim {
	coming := c.next(ref)
	if coming == Never {
		return nil
	}
	seen := c.sample(n)
	for i := range seen {
		seen[i].next = c.due(seen[i].ref)
	}
	slices.SortFunc(seen, func(a, b victim) int { return cmp.Compare(b.next, a.next) })
	for i, v := range seen {
		if !worth(coming, v.next) {
			break
		}
		if n -= v.size; n <= 0 {
			return seen[:i+1]
		}
	}
	return nil
}

// sample returns random chunks that may be evicted to free n bytes. They are random because names
// are hashes and iteration over a map starts at a random element.
func (c *Cache) sample(n int64) (seen []victim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var bytes int64
	for name, e := range c.entries {
		if e.stays || c.busy[name] {
			continue
		}
		seen, bytes = append(seen, victim{name: name, size: e.size, ref: e.ref}), bytes+e.size
		if len(seen) >= lookedAt && bytes >= lookedBytes*n {
			break
		}
	}
	return seen
}

// due returns the time until the next use of a chunk.
func (c *Cache) due(ref uint64) time.Duration {
	if ref == unowned {
		return Never
	}
	return c.next(ref)
}
