package diskcache

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// lookEach is how old, for each chunk on disk, the list of victims must be before it is made anew: that asks for the
	// next use of every one, which takes about a microsecond, so looking takes a hundredth of one core.
	lookEach   = 100 * time.Microsecond
	leastLook  = 64 // victims that a look finds at least
	shareOfAll = 16 // and a part of all
	roomAgain  = 64 // the part of MaxBytes that is free where others do not fill the file system any more
)

// victim is a chunk that is needed late.
type victim struct {
	name name
	size int64
	ref  uint64
	own  bool
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
	if lacking := c.lacking(need); lacking > 0 {
		if made, err := c.exchange(lacking, ref); !made {
			return false, err
		}
	}
	for {
		missing := c.take(need)
		if missing <= 0 {
			return true, nil
		}
		if made, err := c.exchange(missing, ref); !made {
			return false, err
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

// exchange removes chunks that take n bytes together and are worth less than the one that comes.
func (c *Cache) exchange(n int64, ref uint64) (bool, error) {
	chosen := c.choose(n, ref)
	for _, v := range chosen {
		if err := c.evict(v.name, false); err != nil {
			return false, err
		}
	}
	return chosen != nil, nil
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
func (c *Cache) choose(n int64, ref uint64) (chosen []victim) {
	coming := c.until(ref, true)
	if coming == Never {
		return nil
	}
	missing := n
	for looked := false; missing > 0; {
		v, ok := c.victim()
		if ok && !worth(coming, v.next) { // nor are those before it
			c.putBack(v)
			ok = false
		}
		if !ok && (looked || !c.look(time.Now())) {
			slices.Reverse(chosen)
			c.putBack(chosen...)
			return nil
		}
		if !ok {
			looked, chosen, missing = true, nil, n
			continue
		}
		// The reader may have moved since the list was made.
		if worth(coming, c.until(v.ref, v.own)) {
			chosen = append(chosen, v)
			missing -= v.size
		}
	}
	return chosen
}

// putBack puts victims on the list again, the last to be needed at the end.
func (c *Cache) putBack(v ...victim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.victims = append(c.victims, v...)
}

// until returns how far off a chunk's next use is.
func (c *Cache) until(ref uint64, own bool) time.Duration {
	if !own {
		return Never
	}
	return c.next(ref)
}

// victim takes the one that is needed last off the list.
func (c *Cache) victim() (victim, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.victims) > 0 {
		v := c.victims[len(c.victims)-1]
		c.victims = c.victims[:len(c.victims)-1]
		if e, ok := c.entries[v.name]; ok && !e.stays && !c.busy[v.name] {
			return v, true
		}
	}
	return victim{}, false
}

// look makes the list of victims anew, unless that was done lately.
func (c *Cache) look(now time.Time) bool {
	c.mu.Lock()
	if !c.looked.IsZero() && now.Sub(c.looked) < time.Duration(len(c.entries))*lookEach {
		c.mu.Unlock()
		return false
	}
	c.looked = now
	all := make([]victim, 0, len(c.entries))
	for n, e := range c.entries {
		if !c.busy[n] && !e.stays {
			all = append(all, victim{name: n, size: e.size, ref: e.ref, own: e.own})
		}
	}
	c.mu.Unlock()
	for i := range all {
		all[i].next = c.until(all[i].ref, all[i].own)
	}
	slices.SortFunc(all, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.next, b.next), slices.Compare(a.name[:], b.name[:]))
	})
	all = all[len(all)-min(len(all), max(leastLook, len(all)/shareOfAll)):]
	c.mu.Lock()
	c.victims = slices.Clone(all)
	c.mu.Unlock()
	return true
}
