package gateway

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// plans keeps the plans and epochs that were used last: any request can be planned from nothing, this only
// saves doing it again for the next batch. The least used go when they pass the limit in bytes, but for those that a
// request uses: what does not fit beside them is reserved, as long as it is used.
type plans struct {
	limit   int64
	reserve func(ctx context.Context, n int64) (release func(), err error)

	mu     sync.Mutex // guards what follows
	bytes  int64      // within the limit
	recent *list.List // of *planEntry, last used first
	byKey  map[planKey]*planEntry
}

type planKey struct {
	dataset *dataset
	params  shuffle.Params
	epoch   uint64
	isEpoch bool  // else the plan itself
	dealt   int64 // bytes that the epoch keeps of batches that were shared out by homes
}

// planEntry is prepared once, by whoever asks first; the others wait for it.
type planEntry struct {
	key   planKey
	bytes int64
	ready chan struct{} // closed once the fields below are set
	plan  *shuffle.Plan
	epoch *shuffle.Epoch
	err   error

	// Guarded by plans.mu:
	begun bool // somebody prepares it, or has
	users int
	extra func()        // gives back what was reserved for an entry beyond the limit; nil: it is within
	place *list.Element // in recent; nil once it is forgotten
}

// errUnprepared is what they get who waited for a preparation that panicked. Whoever asks next prepares anew.
var errUnprepared = errors.New("the preparation of the plan panicked")

// prepare runs f once for an entry, or waits as long as ctx allows while another request does. An entry that f leaves by a
// panic is forgotten.
func (p *plans) prepare(ctx context.Context, e *planEntry, f func()) error {
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

// first says whether the caller is the one who prepares an entry.
func (p *plans) first(e *planEntry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !e.begun
	e.begun = true
	return first
}

func (p *plans) forget(e *planEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(e)
}

// drop takes an entry out. The caller holds mu.
func (p *plans) drop(e *planEntry) {
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

// makeRoom drops what nobody uses, longest unused first, until so many bytes more are within the limit, and
// reports whether they are. One entry always is. The caller holds mu.
func (p *plans) makeRoom(bytes int64) bool {
	for at := p.recent.Back(); at != nil && p.bytes+bytes > p.limit; {
		e := at.Value.(*planEntry)
		at = at.Prev()
		if e.users == 0 {
			p.drop(e)
		}
	}
	return p.bytes == 0 || p.bytes+bytes <= p.limit
}

// What a plan and an epoch hold: an epoch keeps the order of the chunks, its inverse and sums over it.
const (
	planOverhead      = 1 << 10
	bytesPerPiece     = 16 // of a slot plan; of its pieces there are at most as many as chunks and lanes
	bytesPerLane      = 28 // and its first piece
	bytesPerEpochLane = 8
	bytesPerStratum   = 4
	bytesPerChunk     = 48 // or piece, in an epoch
	bytesPerWeight    = 8  // a sum of weights, in a plan, or of draws, in an epoch
)

// epochBytes is what one prepared epoch holds. With importance each epoch has draws and lanes of its own.
func (d *dataset) epochBytes(params shuffle.Params) int64 {
	lanes := d.lanes(params)
	pieces := int64(d.Index.Chunks()) + lanes
	n := planOverhead + bytesPerChunk*pieces + bytesPerEpochLane*lanes
	if params.Importance != "" {
		n += bytesPerWeight * int64(d.Index.Chunks())
		if params.Shuffle == shuffle.Slot {
			n += bytesPerPiece*pieces + bytesPerLane*lanes
		}
	}
	return n
}

// lanes returns how many lanes a slot plan has at the most.
func (d *dataset) lanes(params shuffle.Params) int64 {
	if params.Shuffle != shuffle.Slot {
		return 0
	}
	return int64(min(params.Window, uint64(d.Index.Samples())))
}

func newPlans(limit int64, reserve func(context.Context, int64) (func(), error)) *plans {
	return &plans{limit: limit, reserve: reserve, recent: list.New(), byKey: map[planKey]*planEntry{}}
}

// acquire finds or adds what key names. Whoever asked must release it.
func (p *plans) acquire(ctx context.Context, key planKey, bytes int64) (*planEntry, error) {
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

// enter finds or adds what key names. What does not fit is added only with extra, and nil returned without; taken says
// that extra is the entry's now.
func (p *plans) enter(key planKey, bytes int64, extra func()) (e *planEntry, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e = p.byKey[key]; e != nil {
		p.recent.MoveToFront(e.place)
		e.users++
		return e, false
	}
	e = &planEntry{key: key, bytes: bytes, users: 1, ready: make(chan struct{})}
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
func (p *plans) release(e *planEntry) {
	if extra := p.leave(e); extra != nil {
		extra()
	}
}

func (p *plans) leave(e *planEntry) (extra func()) {
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
func (p *plans) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// planBytes is what a plan holds beside its epochs: slot keeps its lanes and their pieces, and with importance those that
// chunks are at home with; window keeps strata.
func (d *dataset) planBytes(params shuffle.Params) int64 {
	var chunk int64
	if params.Importance != "" || params.Subset != "" {
		chunk += bytesPerWeight
	}
	if params.Strata > 0 {
		chunk += bytesPerStratum
	}
	n := planOverhead + chunk*int64(d.Index.Chunks())
	if params.Shuffle == shuffle.Slot {
		lanes := d.lanes(params)
		n += bytesPerPiece*(int64(d.Index.Chunks())+lanes) + bytesPerLane*lanes
	}
	return n
}

// plan returns the plan of a dataset under params, and what ends its use. c is what params name.
func (p *plans) plan(ctx context.Context, d *dataset, params shuffle.Params, c choice) (_ *shuffle.Plan, release func(), err error) {
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

// epoch returns one epoch of a plan, prepared, and what ends its use.
func (p *plans) epoch(ctx context.Context, key planKey, c choice) (_ *shuffle.Plan, _ *shuffle.Epoch, release func(), err error) {
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
