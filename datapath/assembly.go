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

// assembly is one batch while its body is built: the parts that it reads from its sources.
//
// The batch reserves memory in this order. First it reserves the memory of its own extracts, in one
// step for all parts in one path. It waits for that memory while it holds nothing else of that path
// (claim). Then it leases the chunks of each part, all or none (part.begin). A batch that waits for
// bytes holds memory. So a load must not reserve memory, nor must a gateway that answers a peer:
// otherwise two gateways could deadlock. A load waits only for the memory to decode in
// (decoding.enter), which batches use in turn.
//
// Sources of several paths have one budget for each path. All batches reserve memory of these
// budgets in the same order, so they cannot deadlock.
type assembly struct {
	parts    []*part   // parts of one path are consecutive; paths are in the order in which memory is reserved
	list     *[][]byte // backing array of segments, from the pool of the first path
	segments [][]byte  // segments of the body; backed by list

	only part     // the part, if there is only one
	one  [1]*part // backing array of parts in that case: neither field costs an allocation
}

// assemblyOf returns the assembly of one part.
func assemblyOf(p part) *assembly {
	a := &assembly{only: p}
	a.one[0] = &a.only
	a.parts = a.one[:]
	return a
}

// manner selects how a batch reads its bytes.
type manner struct {
	leases bool // lease the chunks that are read whole, all together; otherwise copy the samples out of them
	joins  bool // wait for samples that other batches are loading; samples already loaded are used in any case
}

// errJoined reports that another batch failed to load a sample that this batch waited for.
var errJoined = errors.New("another batch failed to load a sample")

// readPlanned reads a batch of a rank. It records the visit in the table of readers, and requests
// chunks that peers own from them.
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

// readFar splits each part into a near part and a far part, and reads the batch.
func (a *assembly) readFar(ctx context.Context) (*batch.Body, error) {
	for rest := a.parts; len(rest) > 0; {
		some := samePath(rest)
		rest = rest[len(some):]
		var far int64
		for _, p := range some {
			p.near, p.far = p.source.split(p.request)
			ahead := p.source.path.ahead
			rank := ahead.come(p, len(p.far.chunks) > 0)
			defer ahead.left(rank, p)
			far += p.far.bytes
		}
		if far > 0 {
			defer some[0].source.path.askLimit.enter(ctx, far)()
		}
	}
	return a.read(ctx)
}

// read reads the batch, with leased chunks and with samples of other batches where possible.
func (a *assembly) read(ctx context.Context) (*batch.Body, error) {
	begun := time.Now()
	if err := a.assemble(ctx, manner{leases: true, joins: true}); err != nil {
		return nil, err
	}
	return batch.NewBody(a.segments, a.tiers(time.Since(begun)), a.close).OnSettle(a.settle), nil
}

// assemble reads the batch in the given manner, and retries without leases or without joining if
// that fails.
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
		case joined && again: // other batches that waited for the sample retry too, and one of them loads it for all
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

// bring reads the batch in one manner.
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

// bringSeveral reads several parts concurrently. The first part that fails cancels the others.
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
			if len(rest) > 0 { // batches that wait for these samples may hold memory of the next path
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

// samePath returns the leading parts that share the path of the first part.
func samePath(parts []*part) []*part {
	n := 1
	for n < len(parts) && parts[n].source.path == parts[0].source.path {
		n++
	}
	return parts[:n]
}

// claim pins the extracts that have, or will have, samples of the parts, which are all in one path.
// For each part it makes one new extract with the missing samples. It reserves the memory of these
// extracts in one step. The parts hold nothing while claim waits for memory.
func claim(ctx context.Context, some []*part, by manner) error {
	for all := false; ; all = true {
		var n, gaps int64
		needs, near := false, false
		for _, p := range some {
			absent, err := p.plan(ctx, by, all)
			if err != nil {
				return p.named(err)
			}
			n += absent
			needs, near = needs || p.need != nil, near || len(p.near.chunks) > 0
		}
		if !needs {
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
			enough = enough && (p.need == nil || p.pin(ctx, &memory, &gaps))
		}
		memory.close()
		if enough {
			return nil
		}
		for _, p := range some { // samples were freed while claim waited
			p.giveBack()
		}
	}
}

// tiers returns how many bytes of the batch each tier delivered, and the wait.
func (a *assembly) tiers(wait time.Duration) []batch.TierTime {
	var came tally
	var total int64
	for _, p := range a.parts {
		came.add(p.came)
		total += p.bytes
	}
	return came.tiers(total, wait)
}

// giveBack releases all memory that the batch holds.
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

// settle frees the memory that the body does not need while it is sent.
func (a *assembly) settle() {
	for _, p := range a.parts {
		p.settle(a.segments)
	}
}
