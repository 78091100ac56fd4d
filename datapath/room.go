package datapath

import (
	"context"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// room is memory in which a batch is put together.
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

// room takes memory for a body of n bytes, and an eighth more if the budget ever has so much: what
// lies between samples that one read brings. Only with waits set it waits.
func (p *Path) room(ctx context.Context, n int64, waits bool) (room, error) {
	if more := n + n/8; p.holds(more) {
		n = more
	}
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

// room takes memory for n bytes of a batch, which are all of it at most.
func (s *Source) room(ctx context.Context, b *batch, n int64) (room, error) {
	if b.lent != nil {
		return room{bytes: b.lent}, nil
	}
	return s.path.room(ctx, n, !b.tries)
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
