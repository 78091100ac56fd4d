package datapath

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// gathering is one batch that comes partly from other gateways: it shows what the run of its rank has brought (readAhead), and asks for
// the rest.
//
// Its memory is taken like that of any batch: for what peers send a body of its own, first, and waited for while nothing else is held;
// then the chunks of this gateway, all at once or not at all. A run is shown only where there is memory for the rest at once. Whoever
// waits for a peer holds memory; so no peer waits for memory while he answers, or two gateways could wait for each other.
type gathering struct {
	asker
	total  int64 // bytes of the whole batch
	near   *batch
	far    *far // what peers own, but for what is in the run
	run    *batchRun
	begun  time.Time
	sent   int64 // bytes from the run
	room   room
	used   int64 // bytes of the room that segments lie in
	leases *chunkcache.Leases[key]
	held   *settling // of the leases, once all has come; nil: none
}

// bringShared brings a batch of a dataset that peers share.
func (s *Source) bringShared(ctx context.Context, at shuffle.Cursor, b *batch) (*chunkindex.Body, error) {
	near, far := s.split(b)
	ahead := s.path.ahead
	rank := ahead.come(s, at, b, far != nil)
	defer ahead.served(rank)
	if far == nil {
		return s.bringHere(ctx, b)
	}
	leave, err := s.path.asking.turn(ctx, far.batch)
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.gather(ctx, at.Plan, b.bytes, near, far, ahead.wait(ctx, rank, at))
}

// gather brings a batch. With a run it waits for no memory; where there is none now it does without the run.
func (s *Source) gather(ctx context.Context, plan *shuffle.Plan, total int64, near *batch, f *far, run *batchRun) (*chunkindex.Body, error) {
	g := &gathering{
		asker: asker{source: s, plan: plan, reader: f.reader, segments: make([][]byte, near.segments)},
		total: total, near: near, far: f, run: run, begun: time.Now(),
	}
	if run != nil {
		g.far = s.path.ahead.take(run, f, g.segments)
		g.sent = f.bytes - g.far.bytes
	}
	whole, ranged := s.sort(near)
	var body *chunkindex.Body
	err := chunkcache.ErrNoRoom
	if len(ranged) == 0 && near.lent == nil {
		body, err = g.slices(ctx, whole)
	}
	if errors.Is(err, chunkcache.ErrNoRoom) {
		body, err = g.copies(ctx, whole, ranged)
	}
	if err == nil {
		return body, nil
	}
	g.close()
	if run != nil && errors.Is(err, chunkcache.ErrNoRoom) {
		return s.gather(ctx, plan, total, near, f, nil)
	}
	return nil, err
}

// askingShare is the part of the budget that those may hold together who wait for peers, a half: what is to answer peers needs the rest. Without
// it a herd would fill all gateways with empty bodies, no owner could load a chunk, and everybody would read for himself.
const askingShare = 2

// asking bounds the memory of those who wait for peers.
type asking struct {
	max   int64
	bytes *semaphore.Weighted
}

func newAsking(total int64) *asking {
	n := max(total/askingShare, 1)
	return &asking{n, semaphore.NewWeighted(n)}
}

// turn waits for a turn to ask for a batch, unless that waits for nothing, or was given one with its memory.
func (a *asking) turn(ctx context.Context, b *batch) (leave func(), err error) {
	switch n := min(b.bytes, a.max); {
	case b.lent != nil:
		return func() {}, nil
	case !b.tries:
		return a.enter(ctx, n), nil
	case a.bytes.TryAcquire(n):
		return func() { a.bytes.Release(n) }, nil
	}
	return nil, chunkcache.ErrNoRoom
}

// enter waits for a turn to ask for n bytes, but not for ever: to go on costs a read of the store, and not to does not help.
func (a *asking) enter(ctx context.Context, n int64) (leave func()) {
	n = min(n, a.max)
	ctx, cancel := context.WithTimeout(ctx, budget.DefaultWait)
	defer cancel()
	if a.bytes.Acquire(ctx, n) != nil {
		return func() {}
	}
	return func() { a.bytes.Release(n) }
}

// slices serves what this gateway keeps from leased chunks, and the rest from a body of its own.
func (g *gathering) slices(ctx context.Context, whole []int) (*chunkindex.Body, error) {
	s := g.source
	spare, err := g.reserve(ctx, 0)
	if err != nil {
		return nil, err
	}
	spare = g.far.lay(g.segments, spare)
	missing := s.missing(g.near, whole)
	wait, place, err := s.begin(ctx, g.near, whole)
	if err != nil {
		g.giveBack()
		return nil, err
	}
	ask, stop := g.start(ctx)
	g.leases, err = wait()
	if err != nil {
		stop()
	}
	bytes, lost := ask()
	if err != nil {
		g.leases = nil
		return nil, err
	}
	for i, c := range g.near.chunks {
		data := g.leases.Bytes(place[i])
		for _, r := range c.Ranges {
			end := r.Offset + r.Length
			g.segments[r.Seq] = data[r.Offset:end:end]
		}
	}
	g.held = &settling{leases: g.leases, chunks: g.near.chunks, place: place, segments: g.segments}
	missing.peer = bytes
	return g.finish(ctx, lost, missing, spare)
}

// copies serves the whole batch from a body of its own.
func (g *gathering) copies(ctx context.Context, whole, ranged []int) (*chunkindex.Body, error) {
	spare, err := g.reserve(ctx, g.near.bytes)
	if err != nil {
		return nil, err
	}
	spare = g.far.lay(g.segments, g.near.lay(g.segments, spare))
	ask, stop := g.start(ctx)
	loaded, err := g.source.into(ctx, g.near, whole, ranged, g.segments, spare)
	if err != nil {
		stop()
	}
	bytes, lost := ask()
	if err != nil {
		return nil, err
	}
	loaded.peer = bytes
	return g.finish(ctx, lost, loaded, spare)
}

// start begins to ask the peers. ask waits for them; stop makes that short.
func (g *gathering) start(ctx context.Context) (ask func() (int64, []chunkindex.ChunkRanges), stop func()) {
	ctx, stop = context.WithCancel(ctx)
	o := &ownersTier{asker: &g.asker, far: g.far}
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := hotTier{g.source.path.hot, o}
		_ = first.Load(ctx, &load{source: g.source}, g.far.fills(g.far.all(), g.segments)) // what did not come is in o
	}()
	return func() (int64, []chunkindex.ChunkRanges) {
		<-done
		stop()
		return o.bytes, o.lost
	}, stop
}

// ownersTier is the tier of the gateways that own chunks, for samples of one batch.
type ownersTier struct {
	*asker
	far   *far
	bytes int64 // that have come
	lost  []chunkindex.ChunkRanges
}

var errLost = errors.New("a peer did not send what was asked")

// Load asks all owners at once.
func (o *ownersTier) Load(ctx context.Context, _ *load, fills []*fill) error {
	chunks, members := make([]chunkindex.ChunkRanges, len(fills)), make([]string, len(fills))
	at := 0 // in the list of all chunks, which is in the same order
	for n, x := range fills {
		for o.far.chunks[at].Chunk != x.Chunk {
			at++
		}
		chunks[n], members[n] = x.ChunkRanges, o.far.owners[at]
	}
	if o.bytes, o.lost = o.ask(ctx, chunks, members); len(o.lost) > 0 {
		return errLost
	}
	return nil
}

// finish brings what peers did not send by the ways of this gateway, and makes the body.
func (g *gathering) finish(ctx context.Context, lost []chunkindex.ChunkRanges, loaded answer, spare []byte) (*chunkindex.Body, error) {
	if len(lost) > 0 {
		s, b := g.source, g.far.of(lost)
		b.origin = afterPeers
		s.path.reown() // what has come to this gateway is brought as its own
		whole, ranged := s.sort(b)
		more, err := s.into(ctx, b, whole, ranged, g.segments, spare)
		if err != nil {
			return nil, err
		}
		loaded.disk, loaded.store = loaded.disk+more.disk, loaded.store+more.store
	}
	for _, t := range g.far.twins {
		g.segments[t[0]] = g.segments[t[1]]
	}
	loaded.peer += g.sent
	return chunkindex.NewBody(g.segments, tiers(g.total, loaded, time.Since(g.begun)), g.close).OnSettle(g.settle), nil
}

// reserve takes memory for what peers are asked for and for more bytes of the body, none if there are none.
func (g *gathering) reserve(ctx context.Context, more int64) (buf []byte, err error) {
	g.used = more + g.far.bytes
	switch {
	case g.used == 0:
		return nil, nil
	case g.run != nil && g.near.lent == nil: // what holds the run's memory waits for none
		g.room, err = g.source.path.room(ctx, g.used, false)
	default:
		g.room, err = g.source.room(ctx, g.near, g.used)
	}
	return g.room.bytes, err
}

func (g *gathering) giveBack() {
	g.room.close()
	g.room = room{}
}

// settle gives back the memory that the body can do without.
func (g *gathering) settle() {
	g.room.shrink(g.used)
	if g.held != nil {
		g.held.settle()
	}
}

func (g *gathering) close() {
	switch {
	case g.held != nil:
		g.held.close()
	case g.leases != nil:
		g.leases.Close()
	}
	g.giveBack()
	g.source.path.ahead.release(g.run)
}
