package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// assembly is one batch on its way into a body: the parts that it takes of its sources.
//
// Its memory is taken in this order. First comes that of its own extracts, in one step for all parts in one path: the batch waits for it
// while it holds nothing else of that path (claim). Then come the chunks of each part, all at once or not at all (part.begin). A batch that
// waits for bytes holds memory, so no load reserves memory, nor does a peer while it answers: else two gateways could deadlock. The only memory
// that a load waits for is that to decode in (decoding.enter), which is shared in turns.
//
// Sources of several paths have as many budgets. All batches reserve memory of these in the same order, so they cannot deadlock.
type assembly struct {
	parts    []*part   // those in one path follow each other, in the order in which memory is waited for
	list     *[][]byte // of the first path's pool
	segments [][]byte  // of the body, in the list

	only part     // where there is no other; and
	one  [1]*part // parts then: neither costs an allocation of its own
}

// assemblyOf returns the assembly of one part.
func assemblyOf(p part) *assembly {
	a := &assembly{only: p}
	a.one[0] = &a.only
	a.parts = a.one[:]
	return a
}

// manner selects how a batch gets its bytes.
type manner struct {
	leases bool // chunks that are brought as a whole are leased together; else what the batch needs of them is copied
	joins  bool // samples are used that others are about to bring; samples that others have brought are used in any case
}

// errJoined says that a sample did not come that another batch has begun to bring.
var errJoined = errors.New("a sample that another batch was to bring has not come")

// readPlanned reads a batch of a rank. It tells those who look ahead that the rank comes, and asks peers for what they own.
func (a *assembly) readPlanned(ctx context.Context) (*batch.Body, error) {
	for _, p := range a.parts {
		p.visit = p.source.visit(ctx, p.at, p.request)
	}
	body, err := a.readFar(ctx)
	for _, p := range a.parts {
		body, _ = p.visit.ended(body, err)
	}
	return body, err
}

// readFar divides the parts into what is near and what is far, and reads the batch.
func (a *assembly) readFar(ctx context.Context) (*batch.Body, error) {
	for rest := a.parts; len(rest) > 0; {
		some := samePath(rest)
		rest = rest[len(some):]
		var far int64
		for _, p := range some {
			p.near, p.far = p.source.split(p.request)
			ahead := p.source.path.ahead
			rank := ahead.come(p, len(p.far.chunks) > 0)
			defer ahead.left(rank, p.at)
			far += p.far.bytes
		}
		if far > 0 {
			defer some[0].source.path.askLimit.enter(ctx, far)()
		}
	}
	return a.read(ctx)
}

// read brings the batch: with leased chunks if these fit into memory together, and with the samples of others if these come.
func (a *assembly) read(ctx context.Context) (*batch.Body, error) {
	begun := time.Now()
	if err := a.assemble(ctx, manner{leases: true, joins: true}); err != nil {
		return nil, err
	}
	return batch.NewBody(a.segments, a.tiers(time.Since(begun)), a.close).OnSettle(a.settle), nil
}

// assemble brings the batch, in one manner first and then in those that need less of others.
func (a *assembly) assemble(ctx context.Context, by manner) error {
	n := 0
	for _, p := range a.parts {
		n = max(n, p.segments)
		p.whole, p.ranged = p.source.chooseReads(p.near)
	}
	a.list = a.parts[0].source.path.segments.Get().(*[][]byte)
	*a.list = slices.Grow((*a.list)[:0], n)[:n]
	a.segments = *a.list
	for again := true; ; {
		err := a.bring(ctx, by)
		switch noRoom, joined := errors.Is(err, chunkcache.ErrNoRoom), errors.Is(err, errJoined); {
		case err == nil:
			for _, p := range a.parts {
				p.count()
			}
			return nil
		case noRoom && by.leases:
			by.leases = false
		case joined && again: // others that joined retry too, and one of them loads the sample for all
			again = false
		case by.joins && (noRoom || joined):
			by.joins = false
		default:
			a.close()
			return err
		}
		a.giveBack()
	}
}

// bring brings the batch in one manner.
func (a *assembly) bring(ctx context.Context, by manner) error {
	if len(a.parts) > 1 {
		return a.bringSeveral(ctx, by)
	}
	p := a.parts[0]
	if err := claim(ctx, a.parts, by); err != nil {
		return err
	}
	if err := p.begin(ctx); err != nil {
		return p.named(err)
	}
	return p.named(p.await(ctx, a.segments))
}

// bringSeveral brings several parts side by side. The first one that fails ends the waits of the others.
func (a *assembly) bringSeveral(ctx context.Context, by manner) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	for rest := a.parts; len(rest) > 0; {
		some := samePath(rest)
		rest = rest[len(some):]
		if err := claim(ctx, some, by); err != nil {
			return err
		}
		for _, p := range some {
			if len(rest) > 0 { // who waits for these samples may hold the memory of the next path
				p.beginSamples(ctx)
			}
		}
	}
	for _, p := range a.parts {
		if err := p.begin(ctx); err != nil {
			return p.named(err)
		}
	}
	var waiting sync.WaitGroup
	for _, p := range a.parts {
		waiting.Go(func() {
			if err := p.await(ctx, a.segments); err != nil {
				stop(p.named(err))
			}
		})
	}
	waiting.Wait()
	return context.Cause(ctx)
}

// samePath returns the parts that follow in the path of the first one.
func samePath(parts []*part) []*part {
	n := 1
	for n < len(parts) && parts[n].source.path == parts[0].source.path {
		n++
	}
	return parts[:n]
}

// claim pins the extracts that have, or will have, samples of some parts in one path, and makes an extract in each part for the others. It
// reserves memory for these in one step. While it waits for memory, the parts hold nothing.
func claim(ctx context.Context, some []*part, by manner) error {
	for all := false; ; all = true {
		var n, gaps int64
		wants, near := false, false
		for _, p := range some {
			absent, err := p.want(ctx, by, all)
			if err != nil {
				return p.named(err)
			}
			n += absent
			wants, near = wants || p.wanted != nil, near || len(p.near.chunks) > 0
		}
		if !wants {
			return nil
		}
		if near {
			gaps = some[0].source.path.gaps(n)
		}
		memory, err := some[0].source.path.room(ctx, n+gaps, !some[0].tries)
		if err != nil {
			return err
		}
		enough := true
		for _, p := range some {
			enough = enough && (p.wanted == nil || p.pin(ctx, &memory, &gaps))
		}
		memory.close()
		if enough {
			return nil
		}
		for _, p := range some { // samples have gone meanwhile
			p.giveBack()
		}
	}
}

// tiers says what each tier has brought of the batch.
func (a *assembly) tiers(wait time.Duration) []batch.TierTime {
	var came tally
	var total int64
	for _, p := range a.parts {
		came.add(p.came)
		total += p.bytes
	}
	return came.tiers(total, wait)
}

// giveBack ends the use of all that the batch holds.
func (a *assembly) giveBack() {
	for _, p := range a.parts {
		p.giveBack()
	}
}

func (a *assembly) close() {
	a.giveBack()
	clear(a.segments)
	a.parts[0].source.path.segments.Put(a.list)
}

// settle gives back the memory that the body can do without before it is sent.
func (a *assembly) settle() {
	for _, p := range a.parts {
		p.settle(a.segments)
	}
}
