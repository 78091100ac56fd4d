package plans

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// cache holds the most recently used plans and epochs. It only saves time, because any plan can be
// computed again. If the cache exceeds its limit in bytes, it evicts the least recently used
// entries without users. An entry that does not fit is reserved in the memory budget while it is
// used.
type cache struct {
	reserve func(ctx context.Context, n int64) (release func(), err error)

	mu     sync.Mutex // guards the fields below
	limit  int64
	bytes  int64      // bytes that count towards the limit
	recent *list.List // *entry, most recently used first
	byKey  map[planKey]*entry
}

type planKey struct {
	dataset *Dataset
	params  shuffle.Params
	epoch   uint64
	isEpoch bool  // an epoch rather than the plan itself
	dealt   int64 // bytes that the epoch caches for batches shared by homes
}

// entry is prepared once, by the first request. Other requests wait for it.
type entry struct {
	key   planKey
	bytes int64
	ready chan struct{} // closed when the fields below are set
	plan  *shuffle.Plan
	epoch *shuffle.Epoch
	err   error

	// Guarded by cache.mu:
	begun bool // a request is preparing it or has prepared it
	users int
	extra func()        // releases the memory of an entry beyond the limit; nil: it is within the limit
	place *list.Element // element in recent; nil after removal
}

// errUnprepared is returned to requests that waited for a preparation that panicked. The next
// request prepares again.
var errUnprepared = errors.New("the preparation of the plan panicked")

// prepare calls f once per entry. Other callers wait until f has returned or ctx ends. An entry is
// removed if f panics.
func (p *cache) prepare(ctx context.Context, e *entry, f func()) error {
	if p.first(e) {
		e.err = errUnprepared
		defer func() {
			if errors.Is(e.err, errUnprepared) {
				p.forget(e)
			}
			close(e.ready)
		}()
		f()
		return e.err
	}
	select {
	case <-e.ready:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("wait for a plan: %w", ctx.Err())
	}
}

// first reports whether the caller must prepare an entry.
func (p *cache) first(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !e.begun
	e.begun = true
	return first
}

func (p *cache) forget(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(e)
}

// forgetAll removes the entries of a dataset.
func (p *cache) forgetAll(d *Dataset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.byKey {
		if key.dataset == d {
			p.drop(e)
		}
	}
}

// drop removes an entry. The caller holds mu.
func (p *cache) drop(e *entry) {
	if e.place == nil {
		return
	}
	p.recent.Remove(e.place)
	delete(p.byKey, e.key)
	e.place = nil
	if e.extra == nil {
		p.bytes -= e.bytes
	}
}

// makeRoom evicts entries without users, least recently used first, until bytes more fit within the
// limit. It reports whether they fit. A single entry always fits. The caller holds mu.
func (p *cache) makeRoom(bytes int64) bool {
	for at := p.recent.Back(); at != nil && p.bytes+bytes > p.limit; {
		e := at.Value.(*entry)
		at = at.Prev()
		if e.users == 0 {
			p.drop(e)
		}
	}
	return p.bytes == 0 || p.bytes+bytes <= p.limit
}

// planBytes returns the memory of a plan without its epochs.
func (d *Dataset) planBytes(params shuffle.Params) int64 {
	return params.PlanBytes(uint64(d.Index.Chunks()), d.Index.Samples())
}

// epochBytes returns the memory of one prepared epoch.
func (d *Dataset) epochBytes(params shuffle.Params) int64 {
	return params.EpochBytes(uint64(d.Index.Chunks()), d.Index.Samples())
}

func newCache(limit int64, reserve func(context.Context, int64) (func(), error)) *cache {
	return &cache{limit: limit, reserve: reserve, recent: list.New(), byKey: map[planKey]*entry{}}
}

func (p *cache) allow(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
}

// allowed returns the limit.
func (p *cache) allowed() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// acquire finds or adds the entry of a key. The caller must release it.
func (p *cache) acquire(ctx context.Context, key planKey, bytes int64) (*entry, error) {
	if e, _ := p.enter(key, bytes, nil); e != nil {
		return e, nil
	}
	extra, err := p.reserve(ctx, bytes)
	if err != nil {
		return nil, err
	}
	e, taken := p.enter(key, bytes, extra)
	if !taken {
		extra()
	}
	return e, nil
}

// enter finds or adds the entry of a key. It adds an entry that does not fit only with extra, which
// releases memory reserved for the entry; without extra it returns nil. taken reports that the
// entry now owns extra.
func (p *cache) enter(key planKey, bytes int64, extra func()) (e *entry, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e = p.byKey[key]; e != nil {
		p.recent.MoveToFront(e.place)
		e.users++
		return e, false
	}
	e = &entry{key: key, bytes: bytes, users: 1, ready: make(chan struct{})}
	switch {
	case p.makeRoom(bytes):
		p.bytes += bytes
	case extra != nil:
		e.extra, taken = extra, true
	default:
		return nil, false
	}
	e.place = p.recent.PushFront(e)
	p.byKey[key] = e
	return e, taken
}

// release ends one use of an entry. An entry without users stays in the cache only within the
// limit.
func (p *cache) release(e *entry) {
	if extra := p.leave(e); extra != nil {
		extra()
	}
}

func (p *cache) leave(e *entry) (extra func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.users--; e.users > 0 || e.extra == nil {
		return nil
	}
	extra = e.extra
	if e.users++; e.place == nil || !p.makeRoom(e.bytes) { // counted as used so that makeRoom does not evict it
		p.drop(e)
	} else {
		p.bytes += e.bytes
		e.extra = nil
	}
	e.users--
	return extra
}

// size returns the cached bytes within the limit.
func (p *cache) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// plan returns the plan of a dataset, created with c. The caller must call release.
func (p *cache) plan(ctx context.Context, d *Dataset, params shuffle.Params, c choice) (_ *shuffle.Plan, release func(), err error) {
	e, err := p.acquire(ctx, planKey{dataset: d, params: params}, d.planBytes(params))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // after an error or a panic
			p.release(e)
		}
	}()
	if err = p.prepare(ctx, e, func() {
		if e.plan, e.err = c.plan(params, d.Index.First()); e.err != nil {
			e.err = fmt.Errorf("plan %s over %d chunks: %w", params.Shuffle, d.Index.Chunks(), e.err)
		}
	}); err != nil {
		return nil, nil, err
	}
	return e.plan, func() { p.release(e) }, nil
}

// epoch returns a prepared epoch of a plan. The caller must call release.
func (p *cache) epoch(ctx context.Context, key planKey, c choice) (_ *shuffle.Plan, _ *shuffle.Epoch, release func(), err error) {
	plan, leavePlan, err := p.plan(ctx, key.dataset, key.params, c)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if release == nil {
			leavePlan()
		}
	}()
	e, err := p.acquire(ctx, key, key.dataset.epochBytes(key.params)+key.dealt)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if release == nil {
			p.release(e)
		}
	}()
	if err = p.prepare(ctx, e, func() { e.plan, e.epoch, e.err = plan, plan.Epoch(key.epoch), nil }); err != nil {
		return nil, nil, nil, err
	}
	return e.plan, e.epoch, func() { p.release(e); leavePlan() }, nil
}

// LeastBytes returns the memory of one epoch of the largest dataset, which is the minimum limit for
// plans.
func LeastBytes(datasets []Index) int64 {
	least := int64(0)
	for _, x := range datasets {
		d := &Dataset{Index: x}
		params := shuffle.Params{Shuffle: shuffle.Slot}
		least = max(least, d.planBytes(params)+d.epochBytes(params))
	}
	return least
}
