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

// gathering is one batch that comes partly from other gateways: it takes from its rank's stock, waits for what is under way there, and
// asks for the rest.
//
// Its memory is taken like that of any batch: for what peers send a body of its own, first, and waited for while nothing else is held;
// then the chunks of this gateway, all at once or not at all. The stock is used only where there is memory for the
// rest at once. Whoever waits for a peer holds memory; so no peer waits for memory while he answers, or two gateways could wait
// for each other.
type gathering struct {
	asker
	at      shuffle.Cursor
	total   int64 // bytes of the whole batch
	near    *batch
	whole   *far // what peers own
	far     *far // of that, what is not in the stock
	begun   time.Time
	carried []*carried // parts of the stock that the body shows
	awaited []awaited
	room    room
	used    int64                   // bytes of the room that segments lie in
	more    *chunkcache.Buffer[key] // for samples that were awaited and did not come
	leases  *chunkcache.Leases[key]
	held    *settling // of the leases, once all has come; nil: none
}

// errInVain says that what was awaited has not come, and that there is no memory for it now.
var errInVain = errors.New("a peer did not send what was asked before its batch")

// bringShared brings a batch of a dataset that peers share.
func (s *Source) bringShared(ctx context.Context, at shuffle.Cursor, b *batch) (*chunkindex.Body, error) {
	near, far := s.split(at.Plan, b)
	stock := s.path.carry.come(ctx, s, at, b, far != nil)
	defer s.path.carry.served(stock)
	if far == nil {
		return s.bringHere(ctx, at, b)
	}
	body, err := s.gather(ctx, at, b.bytes, near, far, stock)
	if errors.Is(err, errInVain) {
		body, err = s.gather(ctx, at, b.bytes, near, far, nil)
	}
	if errors.Is(err, errNoWork) { // the peers are done without, so that all can be reserved in one step
		return s.bringHere(ctx, at, b)
	}
	return body, err
}

func (s *Source) gather(ctx context.Context, at shuffle.Cursor, total int64, near *batch, f *far, stock *stock) (*chunkindex.Body, error) {
	g := &gathering{
		asker: asker{source: s, plan: at.Plan, reader: f.reader, segments: make([][]byte, near.segments)},
		at:    at, total: total, near: near, whole: f, far: f, begun: time.Now(),
	}
	leave, err := s.path.asking.turn(ctx, f.batch)
	if err != nil {
		return nil, err
	}
	defer leave()
	if stock != nil {
		g.carried, g.awaited, g.far = s.path.carry.take(stock, f, g.segments)
	}
	whole, ranged := s.sort(at, near)
	if len(ranged) == 0 && near.lent == nil {
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
	bytes, lost, asked := ask()
	if err != nil {
		g.leases = nil
		return g.fail(err)
	}
	if asked != nil {
		return g.fail(asked)
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
		return g.fail(err)
	}
	spare = g.far.lay(g.segments, g.near.lay(g.segments, spare))
	ask, stop := g.start(ctx)
	loaded, err := g.source.into(ctx, g.near, whole, ranged, g.segments, spare, nil)
	if err != nil {
		stop()
	}
	bytes, lost, asked := ask()
	if err == nil {
		err = asked
	}
	if err != nil {
		return g.fail(err)
	}
	loaded.peer = bytes
	return g.finish(ctx, lost, loaded, spare)
}

// start begins to ask the peers, and to wait for what they have been asked for before. ask waits for both; stop makes that short. Of the
// samples that are hot some may be here.
func (g *gathering) start(ctx context.Context) (ask func() (int64, []chunkindex.ChunkRanges, error), stop func()) {
	ctx, stop = context.WithCancel(ctx)
	which := g.source.hotRanges(g.far.batch, g.far.all(), g.segments)
	if len(which)+len(g.awaited) == 0 {
		return func() (int64, []chunkindex.ChunkRanges, error) { stop(); return 0, nil, nil }, stop
	}
	var bytes int64
	var lost []chunkindex.ChunkRanges
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		bytes, lost = g.ask(ctx, g.far, which)
		if len(lost) == 0 {
			g.source.keepHot(g.far.batch, which, g.segments)
		}
		n, late := g.wait(ctx)
		if bytes += n; late == nil {
			return
		}
		var l []chunkindex.ChunkRanges
		n, l, err = g.again(ctx, late)
		bytes, lost = bytes+n, merged(lost, l)
	}()
	return func() (int64, []chunkindex.ChunkRanges, error) {
		<-done
		stop()
		return bytes, lost, err
	}, stop
}

// wait waits for what is under way to the stock, for a part of the time that is left. It returns the bytes that have come, and what has
// not, nil if that is nothing.
func (g *gathering) wait(ctx context.Context) (bytes int64, late *far) {
	if len(g.awaited) == 0 {
		return 0, nil
	}
	ctx, cancel := partOf(ctx)
	defer cancel()
	for _, l := range g.carried {
		select {
		case <-l.done:
		case <-ctx.Done():
		}
	}
	var lost []awaited
	bytes, lost = g.source.path.carry.arrived(g.awaited)
	if lost == nil {
		return bytes, nil
	}
	late = &far{}
	var chunks []chunkindex.ChunkRanges
	for _, w := range lost {
		chunk := w.part.samples[w.at].chunk
		if k := len(chunks); k == 0 || chunks[k-1].Chunk != chunk {
			chunks = append(chunks, chunkindex.ChunkRanges{Chunk: chunk})
			late.owners = append(late.owners, g.source.owner(g.plan, chunk)) // it may be another one by now
		}
		last := &chunks[len(chunks)-1]
		last.Ranges = append(last.Ranges, w.want)
	}
	late.batch = g.whole.of(chunks)
	return bytes, late
}

// again asks for what was under way and has not come. It waits for no memory: the batch holds some.
func (g *gathering) again(ctx context.Context, late *far) (bytes int64, lost []chunkindex.ChunkRanges, err error) {
	var ok bool
	if g.more, ok = g.source.path.cache.TryBuffer(late.bytes); !ok {
		g.more = nil
		return 0, nil, errInVain
	}
	late.lay(g.segments, g.more.Bytes())
	bytes, lost = g.ask(ctx, late, late.all())
	return bytes, lost, nil
}

// finish brings what peers did not send by the ways of this gateway, and makes the body.
func (g *gathering) finish(ctx context.Context, lost []chunkindex.ChunkRanges, loaded answer, spare []byte) (*chunkindex.Body, error) {
	if len(lost) > 0 {
		s, b := g.source, g.far.of(lost)
		b.lost = true
		s.path.reown() // what has come to this gateway is brought as its own
		whole, ranged := s.sort(g.at, b)
		more, err := s.into(ctx, b, whole, ranged, g.segments, spare, nil)
		if err != nil {
			return g.fail(err)
		}
		loaded.disk, loaded.store = loaded.disk+more.disk, loaded.store+more.store
	}
	for _, t := range g.far.twins {
		g.segments[t[0]] = g.segments[t[1]]
	}
	return chunkindex.NewBody(g.segments, tiers(g.total, loaded, time.Since(g.begun)), g.close).OnSettle(g.settle), nil
}

// reserve takes memory for what peers are asked for and for more bytes of the body, none if there are none.
func (g *gathering) reserve(ctx context.Context, more int64) (buf []byte, err error) {
	if len(g.carried) > 0 && g.near.lent == nil {
		n := more + g.far.bytes
		if n == 0 {
			return nil, nil
		}
		g.used = n
		if g.room, err = g.source.path.room(ctx, n, false); err == nil {
			return g.room.bytes, nil
		}
		g.uncarry()
	}
	n := more + g.far.bytes
	g.used = n
	if n == 0 {
		return nil, nil
	}
	if g.room, err = g.source.room(ctx, g.near, n); err != nil {
		return nil, err
	}
	return g.room.bytes, nil
}

// uncarry does without the stock: nobody waits for memory while he holds some.
func (g *gathering) uncarry() {
	g.source.path.carry.release(g.carried)
	g.carried, g.awaited, g.far = nil, nil, g.whole
}

func (g *gathering) giveBack() {
	g.room.close()
	g.room = room{}
}

func (g *gathering) fail(err error) (*chunkindex.Body, error) {
	g.close()
	return nil, err
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
	if g.more != nil {
		g.more.Close()
	}
	g.source.path.carry.release(g.carried)
}
