package chunkcache

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Want is a chunk that somebody asks for.
type Want[K comparable] struct {
	Chunk  int   // its number in the table
	Key    K     // chunks of one key have the same bytes, in whatever table
	Size   int64 // its length, known beforehand
	Beside int64 // bytes that its load needs until it ends: of a chunk that is stored in another form
}

// Request says what to acquire and how to bring what is missing.
type Request[K comparable] struct {
	Table *Table[K]
	Wants []Want[K]
	Ahead bool  // no reader waits for the chunks yet: they count as neither hits nor misses
	Due   int64 // when the last of the missing wants is needed: a chunk goes for them only if it is due later

	// Group says which of the missing wants one load brings, as lists of their numbers, each exactly
	// once; nil: each has its own. It must be quick: it runs under the cache's lock.
	Group func(missing []int) [][]int
	// Load brings the chunks of one group into the fills' bytes, and publishes or fails each. What it leaves
	// open fails with the error it returns. Its context ends when nobody waits for the
	// group any more. It runs in a goroutine of the cache.
	Load func(ctx context.Context, fills []*Fill[K]) error
}

// call is one key's load on its way. Its fields are guarded by the cache's lock,
// except that err and entry do not change once done is closed.
type call[K comparable] struct {
	coming  *entry[K] // what tables find until the chunk is there
	group   *group
	done    chan struct{}
	waiters int
	settled bool
	err     error
	entry   *entry[K] // with one lease for each waiter
}

// group is what one load brings.
type group struct {
	cancel context.CancelFunc
	wanted int // calls that somebody still waits for
}

// Fill is a chunk that a load brings.
type Fill[K comparable] struct {
	Index int // in the request's Wants
	cache *Cache[K]
	call  *call[K]
	slot  *slot
	size  int64

	beside     *slot // nil: none, or given back
	besideSize int64
}

// Key returns the chunk's key.
func (f *Fill[K]) Key() K { return f.call.coming.key }

// Bytes returns the memory to fill, of exactly the wanted size. It must not be touched after Publish or Fail.
func (f *Fill[K]) Bytes() []byte { return f.slot.buf[:f.size:f.size] }

// Beside returns the memory that the want asked for beside the chunk's, until Publish or Fail.
func (f *Fill[K]) Beside() []byte {
	if f.beside == nil {
		return nil
	}
	return f.beside.buf[:f.besideSize:f.besideSize]
}

// ready provides the memory.
func (f *Fill[K]) ready() error {
	if err := f.slot.ready(); err != nil || f.beside == nil {
		return err
	}
	return f.beside.ready()
}

// Wanted reports whether somebody still waits for the chunk.
func (f *Fill[K]) Wanted() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.call.waiters > 0
}

// Publish hands the filled chunk to its waiters and keeps it in memory.
func (f *Fill[K]) Publish() { f.cache.settle(f, nil) }

// Fail hands an error to the waiters.
func (f *Fill[K]) Fail(err error) { f.cache.settle(f, err) }

// Start leases all chunks of a request: those in memory at once, those on their way by joining their loads, the
// rest by loads that it starts. It takes the memory for all of them at once and never waits for memory: ErrNoRoom
// says that they do not fit now. The function it returns must be called once: it waits for the loads. The caller
// closes the leases.
func (c *Cache[K]) Start(ctx context.Context, req Request[K]) (wait func() (*Leases[K], error), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l := &Leases[K]{cache: c, entries: make([]*entry[K], len(req.Wants))}
	c.mu.Lock()
	_, sizes := c.take(&req, l)
	c.mu.Unlock()
	c.makeRoom(sizes, req.Due)
	waits, err := c.claim(ctx, &req, l)
	if err != nil {
		if c.budget.Waiting() > 0 {
			c.budget.Nudge() // who waits for memory did not see what was leased meanwhile, or made free
		}
		return nil, err
	}
	return func() (*Leases[K], error) { return c.await(ctx, l, waits) }, nil
}

// await waits for the calls that a request has a share in.
func (c *Cache[K]) await(ctx context.Context, l *Leases[K], waits []wait[K]) (*Leases[K], error) {
	var err error
	for i, w := range waits {
		select {
		case <-w.call.done:
			if w.call.err == nil {
				l.entries[w.index] = w.call.entry
				continue
			}
			err = w.call.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		c.leave(waits[i:])
		l.Close()
		return nil, err
	}
	return l, nil
}

// wait is a waiter's share in a call.
type wait[K comparable] struct {
	index int
	call  *call[K]
}

// claim leases what is in memory, joins what is on its way and starts the loads of
// the rest, in one step under the lock: so no key is ever loaded twice at a time, and
// a chunk published meanwhile is found.
func (c *Cache[K]) claim(ctx context.Context, req *Request[K], l *Leases[K]) ([]wait[K], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing, sizes := c.take(req, l)
	var slots []*slot
	if len(missing) > 0 {
		if slots = c.takeSlots(sizes, req.Due, c.budget.TryReserve); slots == nil {
			for i, e := range l.entries {
				if e != nil {
					c.unlease(e)
					l.entries[i] = nil
				}
			}
			return nil, ErrNoRoom
		}
	}
	c.count(req, l)
	c.start(ctx, req, missing, slots)
	var waits []wait[K]
	for i, w := range req.Wants {
		if l.entries[i] != nil {
			continue
		}
		cl := c.calls[w.Key]
		cl.coming.at(req.Table, w.Chunk)
		cl.waiters++
		waits = append(waits, wait[K]{i, cl})
	}
	return waits, nil
}

// take leases what is in memory, and returns the numbers of the wants that are missing, and the sizes of these, and
// then of what they need beside.
func (c *Cache[K]) take(req *Request[K], l *Leases[K]) (missing []int, sizes []int64) {
	var beside []int64
	listed := map[K]bool{}
	for i, w := range req.Wants {
		if l.entries[i] != nil {
			continue
		}
		if e := c.shelf.entries[w.Key]; e != nil {
			e.at(req.Table, w.Chunk)
			c.lease(e)
			l.entries[i] = e
		} else if c.calls[w.Key] == nil && !listed[w.Key] {
			listed[w.Key] = true
			missing = append(missing, i)
			sizes = append(sizes, w.Size)
			if w.Beside > 0 {
				beside = append(beside, w.Beside)
			}
		}
	}
	return missing, append(sizes, beside...)
}

// count counts a request's lookups.
func (c *Cache[K]) count(req *Request[K], l *Leases[K]) {
	for i, w := range req.Wants {
		switch {
		case l.entries[i] != nil && !req.Ahead:
			c.stats.Hits++
			c.stats.HitBytes += uint64(w.Size)
		case l.entries[i] == nil:
			if !req.Ahead {
				c.stats.Misses++
			}
			if c.calls[w.Key] != nil {
				c.stats.Joins++
			}
		}
	}
}

// start registers a call for each missing chunk and starts the loads.
func (c *Cache[K]) start(ctx context.Context, req *Request[K], missing []int, slots []*slot) {
	if len(missing) == 0 {
		return
	}
	bySlot := make(map[int]*slot, len(missing))
	groups := make([][]int, 0, len(missing))
	beside := slots[len(missing):]
	besides := make(map[int]*slot, len(beside))
	for n, i := range missing {
		bySlot[i] = slots[n]
		if req.Wants[i].Beside > 0 {
			besides[i], beside = beside[0], beside[1:]
		}
		if req.Group == nil {
			groups = append(groups, []int{i})
		}
	}
	if req.Group != nil {
		groups = req.Group(missing)
	}
	for _, indices := range groups {
		loadCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g := &group{cancel: cancel, wanted: len(indices)}
		fills := make([]*Fill[K], len(indices))
		for n, i := range indices {
			w := req.Wants[i]
			cl := &call[K]{coming: &entry[K]{key: w.Key, coming: true}, group: g, done: make(chan struct{})}
			c.calls[w.Key] = cl
			fills[n] = &Fill[K]{Index: i, cache: c, call: cl, slot: bySlot[i], size: w.Size, beside: besides[i], besideSize: w.Beside}
			c.stats.Loads++
			c.stats.LoadsActive++
		}
		c.loads.Go(func() {
			defer cancel()
			c.run(loadCtx, fills, req.Load)
		})
	}
}

// run brings one group. Whatever happens in load, every fill is settled when it returns.
func (c *Cache[K]) run(ctx context.Context, fills []*Fill[K], load func(context.Context, []*Fill[K]) error) {
	err := errAborted
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("load panicked: %v\n%s", v, debug.Stack())
		}
		if err == nil {
			err = errAborted
		}
		for _, f := range fills {
			c.settle(f, err)
		}
	}()
	for _, f := range fills {
		if err = f.ready(); err != nil {
			return
		}
	}
	err = load(ctx, fills)
}

// settle ends a fill, once: with its chunk in memory, or with an error and its slot free.
func (c *Cache[K]) settle(f *Fill[K], err error) {
	c.mu.Lock()
	defer c.budget.Nudge() // whatever becomes of the slot, somebody may use it
	defer c.mu.Unlock()
	cl := f.call
	if cl.settled {
		return
	}
	cl.settled = true
	c.stats.LoadsActive--
	if f.beside != nil {
		c.putFree(f.beside)
		f.beside = nil
	}
	key := cl.coming.key
	alive := c.calls[key] == cl
	if alive {
		c.forget(cl)
		if cl.group.wanted--; cl.group.wanted == 0 {
			cl.group.cancel() // only fills that everybody left are still open
		}
	}
	// A load that everybody left may still have brought its chunk: keep it, unless another is on its way.
	keep := err == nil && (alive || !c.shelf.Has(key) && c.calls[key] == nil)
	if keep {
		e := &entry[K]{key: key, slot: f.slot, length: f.size, cost: f.slot.cost(), refs: int32(cl.waiters)}
		c.shelf.put(e)
		for _, p := range cl.coming.places {
			e.at(p.table, p.chunk)
		}
		c.stats.Bytes += f.slot.class
		c.stats.LoadBytes += uint64(f.size)
		c.stats.OpenLeases += int64(cl.waiters)
		cl.entry = e
	} else {
		c.putFree(f.slot)
		if !c.shelf.Has(key) && c.calls[key] == nil {
			cl.coming.gone()
		}
	}
	if err != nil {
		c.stats.Failures++
		cl.err = err
	}
	close(cl.done)
}

// forget takes a call off the table, so that nobody joins it any more.
func (c *Cache[K]) forget(cl *call[K]) {
	delete(c.calls, cl.coming.key)
	cl.coming.lost()
}

// leave ends the waits of somebody who will not use them. The last one out of a
// call takes it off the table first, so that nobody joins it any more; the last one out of a group then ends its load.
func (c *Cache[K]) leave(waits []wait[K]) {
	c.mu.Lock()
	defer c.budget.Nudge()
	defer c.mu.Unlock()
	for _, w := range waits {
		cl := w.call
		if cl.settled {
			if cl.entry != nil {
				c.unlease(cl.entry)
			}
			continue
		}
		cl.waiters--
		if cl.waiters > 0 {
			continue
		}
		c.forget(cl)
		if cl.group.wanted--; cl.group.wanted == 0 {
			cl.group.cancel()
		}
	}
}
