package chunkcache

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
)

// Request says what to acquire and how to bring what is missing.
type Request[K comparable] struct {
	Table  *Table[K]
	Chunks []int // by their numbers in the table
	Ahead  bool  // no reader waits for the chunks yet: they count as neither hits nor misses
	Due    int64 // when the last of the missing chunks is needed: a chunk goes for them only if it is due later

	// Group says which of the missing chunks one load brings: lists of them, each in exactly
	// one; nil: each has a load of its own. It must be quick: it runs under the cache's lock.
	Group func(missing []int) [][]int
	// Load brings the chunks of one group into the fills' bytes, and publishes or fails each. What it leaves
	// open fails with the error it returns. Its context ends when nobody waits for the
	// group any more. It runs in a goroutine of the cache.
	Load func(ctx context.Context, fills []*Fill[K]) error
	// Told is called when the wait for the loads ends, once for each load that has said what it is
	// (Fill.Say), whichever request has started it; nil: this request need not know.
	Told func(load any)
}

// Fill is a chunk that a load brings. Its fields are guarded by the cache's lock, except that err does not change
// once done is closed.
type Fill[K comparable] struct {
	Chunk  int // its number in the request's table
	cache  *Cache[K]
	entry  *entry[K]
	beside *slot // nil: none, or free again
	group  *group

	done    chan struct{}
	settled bool
	err     error
}

// group is what one load brings.
type group struct {
	cancel context.CancelFunc
	wanted int                 // chunks that requests still wait for
	says   atomic.Pointer[any] // what the load is; nil: it has not said so
}

// Key returns the chunk's key.
func (f *Fill[K]) Key() K { return f.entry.key }

// Bytes returns the memory to fill, of exactly the wanted size. It must not be touched after Publish or Fail.
func (f *Fill[K]) Bytes() []byte { return f.entry.slot.bytes() }

// Beside returns the memory that the load needs beside the chunk's, until Publish or Fail.
func (f *Fill[K]) Beside() []byte {
	if f.beside == nil {
		return nil
	}
	return f.beside.bytes()
}

// Wanted reports whether a request waits for the chunk.
func (f *Fill[K]) Wanted() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.entry.refs > 0
}

// Say says what the load is that brings the chunk, to all requests that wait for it. Load calls it before it
// publishes or fails any chunk.
func (f *Fill[K]) Say(what any) { f.group.says.Store(&what) }

// ready provides the memory.
func (f *Fill[K]) ready() error {
	if err := f.entry.slot.ready(); err != nil || f.beside == nil {
		return err
	}
	return f.beside.ready()
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
	l := &Leases[K]{cache: c, entries: make([]*entry[K], len(req.Chunks))}
	for {
		need, ok := c.claim(ctx, &req, l)
		if ok {
			return func() (*Leases[K], error) {
				if req.Told != nil {
					defer tell(l.loads(), req.Told) // of the loads that are under way now
				}
				return l.await(ctx)
			}, nil
		}
		if !c.makeRoom(need, req.Due) {
			l.Close()
			if c.budget.Waiting() > 0 {
				c.budget.Nudge() // who waits for memory did not see what was leased meanwhile, or made free
			}
			return nil, ErrNoRoom
		}
	}
}

// loads returns the loads under way that bring what is leased, each once.
func (l *Leases[K]) loads() (all []*group) {
	for _, e := range l.entries {
		if f := e.load.Load(); f != nil && !slices.Contains(all, f.group) {
			all = append(all, f.group)
		}
	}
	return all
}

// tell calls told with what each load has said of itself.
func tell(loads []*group, told func(load any)) {
	for _, g := range loads {
		if what := g.says.Load(); what != nil {
			told(*what)
		}
	}
}

// await waits for the loads that bring what is leased.
func (l *Leases[K]) await(ctx context.Context) (*Leases[K], error) {
	for _, e := range l.entries {
		f := e.load.Load()
		if f == nil {
			continue
		}
		var err error
		select {
		case <-f.done:
			err = f.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			l.Close()
			return nil, err
		}
	}
	return l, nil
}

// claim leases what is in memory or on its way, and starts the loads of the rest, in one step under the lock: so
// no key is ever loaded twice at a time. If there is no memory for the rest, it returns how many bytes have to be free
// at once, and what it has leased stays leased.
func (c *Cache[K]) claim(ctx context.Context, req *Request[K], l *Leases[K]) (need int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	missing, sizes := c.take(req, l)
	slots, need := c.takeSlots(sizes, c.budget.TryReserve)
	if slots == nil {
		return need, false
	}
	c.count(!req.Ahead, l)
	if len(missing) > 0 {
		c.start(ctx, req, l, missing, slots)
	}
	return 0, true
}

// take leases what is in memory or on its way. It returns the chunks that are missing, and the sizes of
// these, and then of what they need beside.
func (c *Cache[K]) take(req *Request[K], l *Leases[K]) (missing []int, sizes []int64) {
	var beside []int64
	listed := map[K]bool{}
	for i, chunk := range req.Chunks {
		if l.entries[i] != nil {
			continue
		}
		e, of := c.find(req.Table, chunk)
		if e != nil {
			c.lease(e)
			l.entries[i] = e
		} else if !listed[of.Key] {
			listed[of.Key] = true
			missing = append(missing, chunk)
			sizes = append(sizes, of.Size)
			if of.Beside > 0 {
				beside = append(beside, of.Beside)
			}
		}
	}
	return missing, append(sizes, beside...)
}

// count counts the lookups of a request, which a reader waits for or not.
func (c *Cache[K]) count(reader bool, l *Leases[K]) {
	for _, e := range l.entries {
		switch there := e != nil && e.resident(); {
		case there && reader:
			c.stats.Hits++
			c.stats.HitBytes += uint64(e.slot.length)
		case !there:
			if reader {
				c.stats.Misses++
			}
			if e != nil {
				c.stats.Joins++
			}
		}
	}
}

// start starts the loads of the chunks that are missing, and leases these.
func (c *Cache[K]) start(ctx context.Context, req *Request[K], l *Leases[K], missing []int, slots []*slot) {
	beside := slots[len(missing):]
	fills := make(map[int]*Fill[K], len(missing))
	for n, chunk := range missing {
		of := req.Table.of.Chunk(chunk)
		e := &entry[K]{key: of.Key, slot: slots[n], cost: slots[n].cost()}
		f := &Fill[K]{Chunk: chunk, cache: c, entry: e, done: make(chan struct{})}
		if of.Beside > 0 {
			f.beside, beside = beside[0], beside[1:]
			f.beside.sparse = true
		}
		e.load.Store(f)
		c.entries[of.Key], fills[chunk] = e, f
	}
	c.take(req, l)
	groups := make([][]int, 0, len(missing))
	if req.Group != nil {
		groups = req.Group(missing)
	} else {
		for _, chunk := range missing {
			groups = append(groups, []int{chunk})
		}
	}
	for _, chunks := range groups {
		loadCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		g := &group{cancel: cancel, wanted: len(chunks)}
		together := make([]*Fill[K], len(chunks))
		for n, chunk := range chunks {
			together[n] = fills[chunk]
			together[n].group = g
		}
		c.stats.Loads += uint64(len(chunks))
		c.stats.LoadsActive += int64(len(chunks))
		req.Table.loads.Add(1)
		c.loads.Go(func() {
			defer req.Table.loads.Done()
			defer cancel()
			c.run(loadCtx, together, req.Load)
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
	defer c.budget.Nudge() // a request that waits for memory may take what became of the slot
	defer c.mu.Unlock()
	if f.settled {
		return
	}
	f.settled, f.err = true, err
	defer close(f.done)
	c.stats.LoadsActive--
	if f.beside != nil {
		c.putFree(f.beside)
		f.beside = nil
	}
	e := f.entry
	if e.refs > 0 {
		f.group.leave() // if that was its last chunk, only fills that nobody waits for are still open
	}
	if err != nil {
		c.stats.Failures++
	}
	// A load that everybody left may still have brought its chunk: keep it, unless another is on its way.
	other := c.entries[e.key] != nil && c.entries[e.key] != e
	if err == nil && !other {
		c.keep(e)
		return
	}
	c.putFree(e.slot)
	if !other {
		delete(c.entries, e.key)
		e.gone()
	}
}

// keep keeps a chunk whose load has brought it.
func (c *Cache[K]) keep(e *entry[K]) {
	e.load.Store(nil)
	c.entries[e.key] = e
	e.found()
	if e.refs == 0 {
		c.idle.add(e)
	}
	c.stats.Chunks++
	c.stats.Bytes += e.slot.class
	c.stats.LoadBytes += uint64(e.slot.length)
	c.stats.OpenLeases += int64(e.refs)
}

// abandon gives up a load that no request waits for any more: first nothing finds its chunk, so that no request joins it, and
// if that was the last one of its group the load ends.
func (c *Cache[K]) abandon(f *Fill[K]) {
	delete(c.entries, f.entry.key)
	f.entry.lost()
	f.group.leave()
}

// leave notes that no request waits for one of the chunks any more. Without any the load ends.
func (g *group) leave() {
	if g.wanted--; g.wanted == 0 {
		g.cancel()
	}
}
