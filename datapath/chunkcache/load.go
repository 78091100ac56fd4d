package chunkcache

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
)

// Request describes the chunks to lease, and how to load the missing ones.
type Request[K comparable] struct {
	Table  *Table[K]
	Chunks []int // numbers of the chunks in the table
	Ahead  bool  // no reader waits for the chunks yet: they do not count as hits or misses
	Due    int64 // time when the last of the missing chunks is needed: only chunks due later are evicted for them

	// Group divides the missing chunks into lists, each of which is read by one load. nil: each
	// chunk has its own load. Group runs under the cache's lock, so it must return quickly.
	Group func(missing []int) [][]int
	// Load reads the chunks of one group into the fills' bytes, and publishes or fails each of
	// them. Fills that it leaves open fail with its error. Its context ends when no request
	// waits for the group any more. It runs in a goroutine of the cache.
	Load func(ctx context.Context, fills []*Fill[K]) error
	// Told is called when the wait for the loads ends, once for each load that has described
	// itself (Fill.Say), including loads that other requests have started. It may be nil.
	Told func(load any)
}

// Fill is a chunk that a load reads. Its fields are guarded by the cache's lock, except that err
// does not change after done is closed.
type Fill[K comparable] struct {
	Chunk int // number of the chunk in the request's table
	cache *Cache[K]
	entry *entry[K]
	extra *slot // nil: there is none, or it was freed
	group *group

	done    chan struct{}
	settled bool
	err     error
}

// group is the chunks of one load.
type group struct {
	cancel context.CancelFunc
	wanted int                 // number of chunks that requests still wait for
	says   atomic.Pointer[any] // description of the load; nil: none
}

// Key returns the chunk's key.
func (f *Fill[K]) Key() K { return f.entry.key }

// Bytes returns the memory to fill, which has exactly the length of the chunk. It must not be used
// after Publish or Fail.
func (f *Fill[K]) Bytes() []byte { return f.entry.slot.bytes() }

// Extra returns the additional memory for the load, valid until Publish or Fail.
func (f *Fill[K]) Extra() []byte {
	if f.extra == nil {
		return nil
	}
	return f.extra.bytes()
}

// Needed reports whether a request waits for the chunk.
func (f *Fill[K]) Needed() bool {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	return f.entry.refs > 0
}

// Say passes a description of the load to all requests that wait for it. Load calls it before it
// publishes or fails any chunk.
func (f *Fill[K]) Say(what any) { f.group.says.Store(&what) }

// ready allocates the memory of the fill.
func (f *Fill[K]) ready() error {
	if err := f.entry.slot.ready(); err != nil || f.extra == nil {
		return err
	}
	return f.extra.ready()
}

// Publish delivers the filled chunk to its waiters and keeps it in memory.
func (f *Fill[K]) Publish() { f.cache.settle(f, nil) }

// Fail delivers an error to the waiters.
func (f *Fill[K]) Fail(err error) { f.cache.settle(f, err) }

// Start leases all chunks of a request. It leases chunks in memory at once, joins running loads,
// and starts loads for the rest. It takes the memory for all missing chunks at once and never waits
// for memory: if they do not fit now, it returns ErrNoRoom. The returned function waits for the
// loads and must be called once. The caller closes the leases.
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
					defer tell(l.loads(), req.Told) // for the loads that are running now
				}
				return l.await(ctx)
			}, nil
		}
		if !c.makeRoom(need, req.Due) {
			l.Close()
			if c.budget.Waiting() > 0 {
				c.budget.Nudge() // waiters have not been woken for the leases that were just closed
			}
			return nil, ErrNoRoom
		}
	}
}

// loads returns the running loads of the leased chunks, each once.
func (l *Leases[K]) loads() (all []*group) {
	for _, e := range l.entries {
		if f := e.load.Load(); f != nil && !slices.Contains(all, f.group) {
			all = append(all, f.group)
		}
	}
	return all
}

// tell calls told with the description of each load.
func tell(loads []*group, told func(load any)) {
	for _, g := range loads {
		if what := g.says.Load(); what != nil {
			told(*what)
		}
	}
}

// await waits for the loads of the leased chunks.
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

// claim leases the chunks that are in memory or being loaded, and starts the loads of the others.
// It does so in one step under the lock, so that no key is loaded twice at the same time. If there
// is no memory for the others, it returns the number of bytes that must be free at the same time,
// and keeps its leases.
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

// take leases the chunks that are in memory or being loaded. It returns the missing chunks, and
// their sizes followed by the sizes of the additional memory for their loads.
func (c *Cache[K]) take(req *Request[K], l *Leases[K]) (missing []int, sizes []int64) {
	var extra []int64
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
			if of.Extra > 0 {
				extra = append(extra, of.Extra)
			}
		}
	}
	return missing, append(sizes, extra...)
}

// count updates the counters for the lookups of a request. reader reports whether a reader waits
// for it.
func (c *Cache[K]) count(reader bool, l *Leases[K]) {
	for _, e := range l.entries {
		switch there := e != nil && e.resident(); {
		case there && reader:
			c.stats.Hits++
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

// start starts the loads of the missing chunks, and leases them.
func (c *Cache[K]) start(ctx context.Context, req *Request[K], l *Leases[K], missing []int, slots []*slot) {
	extra := slots[len(missing):]
	fills := make(map[int]*Fill[K], len(missing))
	for n, chunk := range missing {
		of := req.Table.of.Chunk(chunk)
		e := &entry[K]{key: of.Key, slot: slots[n], cost: slots[n].cost()}
		f := &Fill[K]{Chunk: chunk, cache: c, entry: e, done: make(chan struct{})}
		if of.Extra > 0 {
			f.extra, extra = extra[0], extra[1:]
			f.extra.sparse = true
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

// run loads one group. Every fill is settled when it returns, even if load panics.
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

// settle ends a fill once: its chunk is then in memory, or its slot is free and it has an error.
func (c *Cache[K]) settle(f *Fill[K], err error) {
	c.mu.Lock()
	defer c.budget.Nudge() // a request that waits for memory may be able to use the slot
	defer c.mu.Unlock()
	if f.settled {
		return
	}
	f.settled, f.err = true, err
	defer close(f.done)
	c.stats.LoadsActive--
	if f.extra != nil {
		c.putFree(f.extra)
		f.extra = nil
	}
	e := f.entry
	if e.refs > 0 {
		f.group.leave() // after the last awaited chunk, no request waits for the fills that are still open
	}
	if err != nil {
		c.stats.Failures++
	}
	// A load that all waiters have left may still have read its chunk. Keep the chunk, unless
	// another load of it is running.
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

// keep adds a loaded chunk to the chunks in memory.
func (c *Cache[K]) keep(e *entry[K]) {
	e.load.Store(nil)
	c.entries[e.key] = e
	e.found()
	if e.refs == 0 {
		c.idle.add(e)
	}
	c.stats.Chunks++
	c.stats.Bytes += e.slot.class
	c.stats.OpenLeases += int64(e.refs)
}

// abandon handles a chunk that no request waits for any more. It hides the chunk, so that no
// request joins the load. If requests wait for no other chunk of its group, it cancels the load.
func (c *Cache[K]) abandon(f *Fill[K]) {
	delete(c.entries, f.entry.key)
	f.entry.lost()
	f.group.leave()
}

// leave records that no request waits for one of the chunks any more. The last call cancels the
// load.
func (g *group) leave() {
	if g.wanted--; g.wanted == 0 {
		g.cancel()
	}
}
