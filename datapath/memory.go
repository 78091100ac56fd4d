package datapath

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/tracing"
)

// room is memory for the body of a batch. It is freed when the last holder closes it.
type room struct {
	bytes   []byte
	own     *chunkcache.Buffer[key] // nil: the room has no bytes
	holders *atomic.Int32
}

// newRoom returns a room with one holder.
func newRoom(own *chunkcache.Buffer[key]) room {
	r := room{own.Bytes(), own, new(atomic.Int32)}
	return r.hold()
}

// hold adds a holder, and returns the room.
func (r room) hold() room {
	if r.own != nil {
		r.holders.Add(1)
	}
	return r
}

func (r room) close() {
	if r.own != nil && r.holders.Add(-1) == 0 {
		r.own.Close()
	}
}

// shrink frees the memory behind the first n bytes, which held the gaps between samples. It does
// nothing if the room has other holders.
func (r room) shrink(n int64) {
	if r.own != nil && r.holders.Load() == 1 {
		r.own.Shrink(n)
	}
}

// gaps returns an eighth of n bytes for the gaps between samples in one read, or 0 if that and n
// together exceed the budget.
func (p *Path) gaps(n int64) int64 {
	if p.holds(n + n/8) {
		return n / 8
	}
	return 0
}

// room reserves memory for n bytes. If there is none and waits is false, it returns ErrNoRoom.
func (p *Path) room(ctx context.Context, n int64, waits bool) (room, error) {
	if n == 0 {
		return room{}, nil
	}
	if waits {
		ctx, span := tracing.Start(ctx, "wait for memory")
		span.Number("millrace.bytes", n)
		own, err := p.cache.Buffer(ctx, n)
		span.Ended(err)
		if err != nil {
			return room{}, err
		}
		return newRoom(own), nil
	}
	if own, ok := p.cache.TryBuffer(n); ok {
		return newRoom(own), nil
	}
	return room{}, chunkcache.ErrNoRoom
}

// TryReserve reserves n bytes of the budget for memory other than chunks and bodies. It may evict
// chunks that are not leased. It does not wait, and evicts nothing if it fails.
func (p *Path) TryReserve(n int64) (release func(), ok bool) {
	r, ok := p.budget.ReserveNow(n)
	if !ok {
		return nil, false
	}
	return r.Release, true
}

// decoding is memory for compressed chunks that have no room of their own. It is reserved when a
// compressed dataset is opened, and freed when the dataset is closed. Batches use it in turn. A
// batch that holds memory waits at most for its turn, since the batch that uses the decoding memory
// waits for no memory.
type decoding struct {
	cache *chunkcache.Cache[key]
	size  atomic.Int64                 // stored and decoded bytes of the largest compressed chunk
	kept  chan *chunkcache.Buffer[key] // memory of that size, used by one batch at a time
}

func newDecoding(cache *chunkcache.Cache[key]) *decoding {
	d := &decoding{cache: cache, kept: make(chan *chunkcache.Buffer[key], 1)}
	d.kept <- nil
	return d
}

// largestDecoding returns the memory needed to decode any chunk of a dataset, or 0 if no chunk is
// compressed.
func largestDecoding(x *chunkindex.Index) (n int64) {
	for i := range x.Chunks() {
		if desc := x.Chunk(i); desc.Codec != codec.None {
			n = max(n, desc.Length+extra(desc))
		}
	}
	return n
}

// Takes returns the memory that an open dataset takes: 8 bytes per chunk for its table, and the
// memory to decode its chunks in. The datasets of a path share one decoding memory, the largest
// that any of them needs.
func Takes(x *chunkindex.Index) (table, decoding int64) {
	if n := largestDecoding(x); n > 0 {
		decoding = chunkcache.Cost(n)
	}
	return 8 * int64(x.Chunks()), decoding
}

// sizeDecoding sets the size of the decoding memory to the largest need of the open sources.
func (p *Path) sizeDecoding() {
	p.mu.Lock()
	var n int64
	for _, s := range p.open {
		n = max(n, s.decodes)
	}
	p.decoding.size.Store(n)
	p.mu.Unlock()
}

// grow reserves the decoding memory if it is available. It first waits until no batch uses the
// decoding memory.
func (d *decoding) grow() { d.putBack(<-d.kept) }

// putBack ends the turn of a batch, or of grow.
func (d *decoding) putBack(kept *chunkcache.Buffer[key]) {
	d.kept <- d.fitted(kept, d.size.Load())
	d.fit() // a dataset may have been closed meanwhile
}

// fit frees memory that the open sources do not need. It does not wait for its turn: a batch that
// uses the decoding memory calls fit when it finishes (putBack).
func (d *decoding) fit() {
	for n := int64(-1); n != d.size.Load(); {
		select {
		case kept := <-d.kept:
			n = d.size.Load()
			d.kept <- d.fitted(kept, n)
		default:
			return
		}
	}
}

// fitted resizes the kept buffer to n bytes. If memory for n bytes is not available, it returns the
// buffer unchanged.
func (d *decoding) fitted(kept *chunkcache.Buffer[key], n int64) *chunkcache.Buffer[key] {
	var have int64
	if kept != nil {
		have = int64(len(kept.Bytes()))
	}
	switch {
	case have == n:
		return kept
	case n > 0 && have > n:
		kept.Shrink(n)
		return kept
	}
	var other *chunkcache.Buffer[key]
	if n > 0 {
		var ok bool
		if other, ok = d.cache.TryWork(n); !ok {
			return kept
		}
	}
	if kept != nil {
		kept.Close()
	}
	return other
}

// enter returns n bytes to decode a chunk in, valid until leave is called. It uses free memory, or
// else waits for its turn to use the decoding memory.
func (d *decoding) enter(ctx context.Context, n int64) (work []byte, leave func(), err error) {
	if own, ok := d.cache.TryWork(n); ok {
		return own.Bytes(), own.Close, nil
	}
	ctx, span := tracing.Start(ctx, "wait for memory")
	defer func() { span.Ended(err) }()
	span.Number("millrace.bytes", n)
	select {
	case kept := <-d.kept:
		if kept == nil || int64(len(kept.Bytes())) < n { // the decoding memory could not be reserved when the dataset was opened
			d.kept <- kept
			return nil, nil, fmt.Errorf("decode a chunk of %d bytes, stored and decoded: %w", n, budget.ErrOverloaded)
		}
		return kept.Bytes()[:n], func() { d.putBack(kept) }, nil
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}

// close frees the decoding memory.
func (d *decoding) close() {
	if kept := <-d.kept; kept != nil {
		kept.Close()
	}
	d.kept <- nil
}
