package gateway

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// plans keeps the plans and epochs that were used last: any request can be planned from nothing, this only
// saves doing it again for the next batch. The least used go when they pass the limit in bytes.
type plans struct {
	mu     sync.Mutex // guards what follows
	limit  int64
	bytes  int64
	recent *list.List // of *planEntry, last used first
	byKey  map[planKey]*list.Element
}

type planKey struct {
	dataset *dataset
	params  shuffle.Params
	epoch   uint64
	isEpoch bool // else the plan itself
}

// planEntry is prepared once, by whoever asks first; the others wait for it.
type planEntry struct {
	key   planKey
	bytes int64
	once  sync.Once
	plan  *shuffle.Plan
	epoch *shuffle.Epoch
	err   error
}

// errUnprepared is what they get who waited for a preparation that panicked. Whoever asks next prepares anew.
var errUnprepared = errors.New("the preparation of the plan panicked")

// prepare runs f once for an entry. An entry that f leaves by a panic is forgotten.
func (p *plans) prepare(e *planEntry, f func()) {
	e.once.Do(func() {
		e.err = errUnprepared
		defer func() {
			if errors.Is(e.err, errUnprepared) {
				p.forget(e)
			}
		}()
		f()
	})
}

func (p *plans) forget(e *planEntry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if el, ok := p.byKey[e.key]; ok && el.Value.(*planEntry) == e {
		p.recent.Remove(el)
		delete(p.byKey, e.key)
		p.bytes -= e.bytes
	}
}

// What a plan and an epoch hold: an epoch keeps the order of the chunks, its inverse and sums over it.
const (
	planOverhead = 1 << 10
	// bytesPerLaneChunk: a piece takes 16 bytes, a lane 52, and there is at most one lane for each chunk.
	bytesPerLaneChunk = 72
	bytesPerChunk     = 48
)

// epochBytes is what one prepared epoch holds.
func (d *dataset) epochBytes() int64 { return planOverhead + bytesPerChunk*int64(d.Index.Chunks()) }

func newPlans(limit int64) *plans {
	return &plans{limit: limit, recent: list.New(), byKey: map[planKey]*list.Element{}}
}

// entry finds or adds what key names, and drops what was not used for longest.
func (p *plans) entry(key planKey, bytes int64) *planEntry {
	p.mu.Lock()
	defer p.mu.Unlock()
	if el, ok := p.byKey[key]; ok {
		p.recent.MoveToFront(el)
		return el.Value.(*planEntry)
	}
	e := &planEntry{key: key, bytes: bytes}
	p.byKey[key] = p.recent.PushFront(e)
	p.bytes += bytes
	for p.bytes > p.limit && p.recent.Len() > 1 {
		old := p.recent.Remove(p.recent.Back()).(*planEntry)
		delete(p.byKey, old.key)
		p.bytes -= old.bytes
	}
	return e
}

// size returns the bytes held.
func (p *plans) size() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// planBytes is what a plan holds beside its epochs: slot keeps its lanes and their pieces, at most one lane a chunk.
func (d *dataset) planBytes(params shuffle.Params) int64 {
	if params.Shuffle != shuffle.Slot {
		return planOverhead
	}
	return planOverhead + bytesPerLaneChunk*int64(d.Index.Chunks())
}

// plan returns the plan of a data set under params.
func (p *plans) plan(d *dataset, params shuffle.Params) (*shuffle.Plan, error) {
	e := p.entry(planKey{dataset: d, params: params}, d.planBytes(params))
	p.prepare(e, func() {
		e.plan, e.err = shuffle.NewPlan(params, d.Index.First())
		if e.err != nil {
			e.err = fmt.Errorf("plan %s over %d chunks: %w", params.Shuffle, d.Index.Chunks(), e.err)
		}
	})
	return e.plan, e.err
}

// epoch returns one epoch of a plan, prepared.
func (p *plans) epoch(d *dataset, params shuffle.Params, epoch uint64) (*shuffle.Plan, *shuffle.Epoch, error) {
	plan, err := p.plan(d, params)
	if err != nil {
		return nil, nil, err
	}
	e := p.entry(planKey{dataset: d, params: params, epoch: epoch, isEpoch: true}, d.epochBytes())
	p.prepare(e, func() { e.plan, e.epoch, e.err = plan, plan.Epoch(epoch), nil })
	return e.plan, e.epoch, e.err
}
