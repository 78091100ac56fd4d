package diskcache

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// lookedAt is how many chunks are looked at for those that may go, as in memory: of 32 chunks at
	// random one is, nearly always, among the tenth that is needed last. To look at one takes about a
	// microsecond.
	lookedAt = 32
	// lookedBytes is how many times the bytes that have to go those chunks hold at least.
	lookedBytes = 4
	roomAgain   = 64 // the part of MaxBytes that is free where others do not fill the file system any more
)

// victim is a chunk that may go.
type victim struct {
	name name
	size int64
	ref  uint64
	next time.Duration
}

// worth reports whether a chunk should take the place of one that is there, from how far off the next use of each
// is. To exchange two chunks that are both needed saves no read in itself, only where the room serves a third one in
// between; so the one that goes must be needed at least twice as late.
func worth(coming, there time.Duration) bool {
	return coming != Never && (there == Never || there/2 >= coming)
}

// makeRoom takes room for a chunk: what is free, or else that of chunks that are needed much later or never again.
func (c *Cache) makeRoom(need int64, ref uint64) (bool, error) {
	if need > c.cfg.MaxBytes {
		return false, nil
	}
	// That is looked at once: some file systems free the room of a removed file only later.
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

// lacking returns how many bytes the file system lacks for a chunk. It tells when there begin to be less than MaxBytes
// allows, since others fill it, and when there is room again.
func (c *Cache) lacking(need int64) int64 {
	wanted := c.writing.Load() // by others too, who have seen the same room; before the rest of it is asked for
	_, free, err := c.space(c.cfg.Dir)
	if err != nil { // the write will tell
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

// take takes room if there is enough, or returns how much is missing.
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

// choose returns chunks that take n bytes together and are worth less than the one that comes; nil if there are none.
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

// sample returns some of the chunks that could go for n bytes. A walk through a map begins at random, and the names are
// hashes: so they are any chunks.
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

// due returns how far off the next use of a chunk is.
func (c *Cache) due(ref uint64) time.Duration {
	if ref == unowned {
		return Never
	}
	return c.next(ref)
}
