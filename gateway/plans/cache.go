package plans

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// cache keeps the plans and epochs that were used last. Any request can be planned from nothing; the cache only saves
// doing it again for the next batch. Above its limit in bytes the least recently used entries go, unless a request uses
// them. An entry that does not fit beside those in use is reserved in the memory budget for as long as it is used.
type cache struct {
	reserve func(ctx context.Context, n int64) (release func(), err error)

	mu     sync.Mutex // guards what follows
	limit  int64
	bytes  int64      // within the limit
	recent *list.List // of *entry, last used first
	byKey  map[planKey]*entry
}

type planKey struct {
	dataset *Dataset
	params  shuffle.Params
	epoch   uint64
	isEpoch bool  // else the plan itself
	dealt   int64 // bytes that the epoch keeps of batches that were shared out by homes
}

// entry is prepared once, by the first request that asks. Others wait for it.
type entry struct {
	key   planKey
	bytes int64
	ready chan struct{} // closed once the fields below are set
	plan  *shuffle.Plan
	epoch *shuffle.Epoch
	err   error

	// Guarded by cache.mu:
	begun bool // a request prepares it, or has prepared it
	users int
	extra func()        // releases the memory of an entry beyond the limit; nil: the entry fits into the limit
	place *list.Element // in recent; nil once it is forgotten
}

// errUnprepared is the answer to requests that waited for a preparation that panicked. The next request prepares anew.
var errUnprepared = errors.New("the preparation of the plan panicked")

// prepare runs f once for an entry, or waits as long as ctx allows while another request runs it. An entry whose f
// panics is forgotten.
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

// first reports whether the caller is to prepare an entry.
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

// forgetAll takes out the entries of a dataset.
func (p *cache) forgetAll(d *Dataset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, e := range p.byKey {
		if key.dataset == d {
			p.drop(e)
		}
	}
}

// drop takes an entry out. The caller holds mu.
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

// makeRoom drops unused entries, longest unused first, until so many more bytes fit into the limit. It reports whether
// they do. A single entry always fits. The caller holds mu.
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

// planBytes is the memory of a plan beside its epochs.
func (d *Dataset) planBytes(params shuffle.Params) int64 {
	return params.PlanBytes(uint64(d.Index.Chunks()), d.Index.Samples())
}

// epochBytes is the memory of one prepared epoch.
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

// enter finds or adds the entry of a key. An entry that does not fit is added only with extra, the release of memory
// that was reserved for it; without, enter returns nil. taken reports that the entry owns extra now.
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

// release ends one use of an entry. After its last one it stays only within the limit.
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
	if e.users++; e.place == nil || !p.makeRoom(e.bytes) { // counted as used meanwhile, so as not to be dropped itself
		p.drop(e)
	} else {
		p.bytes += e.bytes
		e.extra = nil
	}
	e.users--
	return extra
}

// size returns the bytes held.
func (p *cache) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// plan returns the plan of a dataset, made with c, and the function that ends its use.
func (p *cache) plan(ctx context.Context, d *Dataset, params shuffle.Params, c choice) (_ *shuffle.Plan, release func(), err error) {
	e, err := p.acquire(ctx, planKey{dataset: d, params: params}, d.planBytes(params))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // an error, or a panic
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

// epoch returns a prepared epoch of a plan, and the function that ends its use.
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

// LeastBytes is the memory of one epoch of the largest dataset: the least that plans can work with.
func LeastBytes(datasets []Index) int64 {
	least := int64(0)
	for _, x := range datasets {
		d := &Dataset{Index: x}
		params := shuffle.Params{Shuffle: shuffle.Slot}
		least = max(least, d.planBytes(params)+d.epochBytes(params))
	}
	return least
}
