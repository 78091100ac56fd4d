package datapath

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
)

// room is memory in which a batch is put together, or chunks are decoded that have no room of their
// own.
type room struct {
	bytes []byte
	own   *chunkcache.Buffer[key] // nil: it is a part of other memory, which somebody else gives back
}

func (r room) close() {
	if r.own != nil {
		r.own.Close()
	}
}

// shrink gives back what lies behind the first n bytes: what lay between the samples that one read has brought.
func (r room) shrink(n int64) {
	if r.own != nil {
		r.own.Shrink(n)
	}
}

// lent is a batch's part of memory that was taken for several batches in one step. They hold it
// until the last of them is sent.
type lent struct {
	body []byte      // for this one
	work chan []byte // for one of them at a time: it holds the memory that unpack needs while nobody works there
}

// room takes memory for a body of n bytes, and an eighth more: what lies between samples that one
// read brings. Only with waits set it waits.
func (p *Path) room(ctx context.Context, n int64, waits bool) (room, error) {
	n = min(n+n/8, p.budget.Total())
	if waits {
		own, err := p.cache.Buffer(ctx, n)
		if err != nil {
			return room{}, err
		}
		return room{own.Bytes(), own}, nil
	}
	if own, ok := p.cache.TryBuffer(n); ok {
		return room{own.Bytes(), own}, nil
	}
	return room{}, chunkcache.ErrNoRoom
}

// roomToWork takes memory for a body of n bytes and more to work in: if there is room for that now,
// for as long as the work takes, else both in one step, for nobody waits for memory while he holds
// some.
func (p *Path) roomToWork(ctx context.Context, n, more int64, waits bool) (body, work room, err error) {
	if body, err = p.room(ctx, n, waits); err != nil || more == 0 {
		return body, room{}, err
	}
	if own, ok := p.cache.TryBuffer(more); ok {
		return body, room{own.Bytes(), own}, nil
	}
	body.close()
	if !waits {
		return room{}, room{}, chunkcache.ErrNoRoom
	}
	if n+more > p.budget.Total() {
		return room{}, room{}, fmt.Errorf("read a batch of %d bytes, and a chunk of %d stored and decoded, with a budget of %d: %w",
			n, more, p.budget.Total(), budget.ErrTooLarge)
	}
	if body, err = p.room(ctx, n+more, waits); err != nil {
		return room{}, room{}, err
	}
	at := int64(len(body.bytes)) - more
	work.bytes, body.bytes = body.bytes[at:], body.bytes[:at:at]
	return body, work, nil
}

// room takes memory for n bytes of a batch, which are all of it at most.
func (s *Source) room(ctx context.Context, b *batch, n int64) (room, error) {
	if b.lent != nil {
		return room{bytes: b.lent.body}, nil
	}
	return s.path.room(ctx, n, !b.tries)
}

// roomToWork takes memory for a whole batch and n bytes to work in; toWork finds those where memory
// is lent.
func (s *Source) roomToWork(ctx context.Context, b *batch, n int64) (body, work room, err error) {
	if b.lent != nil {
		return room{bytes: b.lent.body}, room{}, nil
	}
	return s.path.roomToWork(ctx, b.bytes, n, !b.tries)
}

// errNoWork says that there is no memory now in which to decode a chunk.
var errNoWork = errors.New("no memory to decode in")

// toWork returns n bytes to decode chunks in, until done is called: those at hand if they are
// enough, else what was lent with the body, once no other batch works there, else what is free now,
// or errNoWork.
func (s *Source) toWork(ctx context.Context, b *batch, n int64, have []byte) (work []byte, done func(), err error) {
	if int64(len(have)) >= n {
		return have, func() {}, nil
	}
	if b.lent != nil {
		select {
		case work = <-b.lent.work:
			return work, func() { b.lent.work <- work }, nil
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	own, ok := s.path.cache.TryBuffer(n)
	if !ok {
		return nil, nil, errNoWork
	}
	return own.Bytes(), own.Close, nil
}

// TryReserve takes n bytes of the budget for what a gateway holds beside chunks and bodies, if they
// are free or can be had for chunks that nobody leases. It waits for nothing.
func (p *Path) TryReserve(n int64) (release func(), ok bool) {
	r, ok := p.budget.TryReserve(n)
	if !ok && n <= p.budget.Total() && p.budget.Waiting() == 0 {
		p.reclaim(n)
		r, ok = p.budget.TryReserve(n)
	}
	if !ok {
		return nil, false
	}
	return r.Release, true
}
