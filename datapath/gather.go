package datapath

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// gathering is one batch that comes partly from other gateways.
//
// Its memory is taken like that of any batch: for what peers send a body of its own, first, and waited for while nothing else is held;
// then the chunks of this gateway, all at once or not at all. What peers have sent along before is used only where there is memory for the
// rest at once. Whoever waits for a peer holds memory; so no peer waits for memory while he answers, or two gateways could wait
// for each other.
type gathering struct {
	source   *Source
	at       shuffle.Cursor
	total    int64 // bytes of the whole batch
	near     *batch
	far      *far
	begun    time.Time
	segments [][]byte
	carried  []*carried
	asked    far // what there would be to ask for without those
	room     *chunkcache.Buffer[key]
	leases   *chunkcache.Leases[key]
}

func (s *Source) gather(ctx context.Context, at shuffle.Cursor, total int64, near *batch, f *far) (*chunkindex.Body, error) {
	g := &gathering{
		source: s, at: at, total: total, near: near, far: f, begun: time.Now(), segments: make([][]byte, near.segments),
	}
	defer s.path.asking.enter(ctx, f.bytes)()
	g.takeCarried()
	whole, ranged := s.sort(at, near)
	if len(ranged) == 0 {
		body, err := g.slices(ctx, whole)
		if !errors.Is(err, chunkcache.ErrNoRoom) {
			return body, err
		}
	}
	return g.copies(ctx, whole, ranged)
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
		return g.fail(err)
	}
	spare = g.far.lay(g.segments, spare)
	missing := s.missing(g.near, whole)
	wait, place, err := s.begin(ctx, g.near, whole)
	if errors.Is(err, chunkcache.ErrNoRoom) {
		g.giveBack()
		return nil, err
	}
	if err != nil {
		return g.fail(err)
	}
	ask, stop := g.start(ctx)
	g.leases, err = wait()
	if err != nil {
		stop()
	}
	bytes, lost := ask()
	if err != nil {
		g.leases = nil
		return g.fail(err)
	}
	for i, c := range g.near.chunks {
		data := g.leases.Bytes(place[i])
		for _, r := range c.Ranges {
			end := r.Offset + r.Length
			g.segments[r.Seq] = data[r.Offset:end:end]
		}
	}
	missing.peer = bytes
	return g.finish(ctx, lost, missing, spare)
}

// copies serves the whole batch from a body of its own.
func (g *gathering) copies(ctx context.Context, whole, ranged []int) (*chunkindex.Body, error) {
	spare, err := g.reserve(ctx, g.near.bytes)
	if err != nil {
		return g.fail(err)
	}
	spare = g.far.lay(g.segments, g.near.lay(g.segments, spare))
	ask, stop := g.start(ctx)
	loaded, err := g.source.into(ctx, g.near, whole, ranged, g.segments, spare)
	if err != nil {
		stop()
	}
	bytes, lost := ask()
	if err != nil {
		return g.fail(err)
	}
	loaded.peer = bytes
	return g.finish(ctx, lost, loaded, spare)
}

// start begins to ask the peers. ask waits for them; stop makes that short. Of the samples that are hot some may be here.
func (g *gathering) start(ctx context.Context) (ask func() (int64, []chunkindex.ChunkRanges), stop func()) {
	ctx, stop = context.WithCancel(ctx)
	which := make([]int, len(g.far.chunks))
	for i := range which {
		which[i] = i
	}
	which = g.source.hotRanges(g.far.batch, which, g.segments)
	var bytes int64
	var lost []chunkindex.ChunkRanges
	done := make(chan struct{})
	go func() {
		defer close(done)
		bytes, lost = g.ask(ctx, which)
		if len(lost) == 0 {
			g.source.keepHot(g.far.batch, which, g.segments)
		}
	}()
	return func() (int64, []chunkindex.ChunkRanges) {
		<-done
		stop()
		return bytes, lost
	}, stop
}

// finish brings what peers did not send by the ways of this gateway, and makes the body.
func (g *gathering) finish(ctx context.Context, lost []chunkindex.ChunkRanges, loaded answer, spare []byte) (*chunkindex.Body, error) {
	if len(lost) > 0 {
		s, b := g.source, g.far.of(lost)
		whole, ranged := s.sort(g.at, b)
		more, err := s.into(ctx, b, whole, ranged, g.segments, spare)
		if err != nil {
			return g.fail(err)
		}
		loaded.disk, loaded.store = loaded.disk+more.disk, loaded.store+more.store
	}
	for _, t := range g.far.twins {
		g.segments[t[0]] = g.segments[t[1]]
	}
	return chunkindex.NewBody(g.segments, tiers(g.total, loaded, time.Since(g.begun)), g.close), nil
}

// reserve takes memory for what peers are asked for and for more bytes of the body, none if there are none.
func (g *gathering) reserve(ctx context.Context, more int64) (buf []byte, err error) {
	if len(g.carried) > 0 {
		n := more + g.far.bytes
		if n == 0 {
			return nil, nil
		}
		var ok bool
		if g.room, ok = g.source.path.cache.TryBuffer(n + n/8); ok {
			return g.room.Bytes(), nil
		}
		g.uncarry()
	}
	n := more + g.far.bytes
	if n == 0 {
		return nil, nil
	}
	if g.room, err = g.source.room(ctx, g.near, n); err != nil {
		return nil, err
	}
	return g.room.Bytes(), nil
}

// uncarry does without what peers have sent along before: nobody waits for memory while he holds some.
func (g *gathering) uncarry() {
	g.source.path.carry.release(g.carried)
	g.carried = nil
	*g.far = g.asked
}

func (g *gathering) giveBack() {
	if g.room != nil {
		g.room.Close()
		g.room = nil
	}
}

func (g *gathering) fail(err error) (*chunkindex.Body, error) {
	g.close()
	return nil, err
}

func (g *gathering) close() {
	if g.leases != nil {
		g.leases.Close()
	}
	g.giveBack()
	if len(g.carried) > 0 {
		g.source.path.carry.release(g.carried)
	}
}
