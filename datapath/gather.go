package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// gathering is one batch on its way into a body. Its near part comes by the ways of this gateway: as slices of leased chunks where these
// fit into memory together, else as copies. Its far part comes from other gateways: from the run of its rank (readAhead), and
// for the rest by questions.
//
// Its memory is taken in this order. First comes a body of its own, for bytes that are copied or sent by peers: the batch waits for it
// while it holds nothing else (reserve). Then come the chunks of this gateway, all at once or not at all (begin). A batch is served from
// a run only if there is memory for its other samples at once. A batch that waits for a peer holds memory, so no peer waits for
// memory while it answers: else two gateways could wait for each other.
type gathering struct {
	asker
	total  int64 // bytes of the whole batch
	near   *batch
	far    *far // but for what is in the run; nil: peers are asked for nothing
	run    *batchRun
	begun  time.Time
	sent   int64 // bytes from the run
	room   room
	used   int64     // bytes of the room that segments lie in
	list   *[][]byte // of the path's pool, which the segments are
	leases *chunkcache.Leases[key]
	held   *settling // of the leases, once all has come; nil: none
}

// gather brings the parts of a batch. With a run it waits for no memory; where there is none now it does without the run.
func (s *Source) gather(ctx context.Context, b, near *batch, f *far, run *batchRun) (*chunkindex.Body, error) {
	list := s.path.segments.Get().(*[][]byte)
	*list = slices.Grow((*list)[:0], b.segments)[:b.segments]
	g := &gathering{
		asker: asker{source: s, reader: b.reader, segments: *list},
		total: b.bytes, near: near, far: f, run: run, list: list, begun: time.Now(),
	}
	if run != nil {
		g.far = s.path.ahead.take(run, f, g.segments)
		g.sent = f.bytes - g.far.bytes
	}
	whole, ranged := s.chooseReads(near)
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
		return s.gather(ctx, b, near, f, nil)
	}
	return nil, err
}

// slices serves the near part from leased chunks, and the far part from a body of its own.
func (g *gathering) slices(ctx context.Context, whole []int) (*chunkindex.Body, error) {
	s := g.source
	spare, err := g.reserve(ctx, 0)
	if err != nil {
		return nil, err
	}
	spare = g.far.lay(g.segments, spare)
	loaded := s.missing(g.near, whole)
	wait, err := s.begin(ctx, g.near, whole)
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
		data := g.leases.Bytes(i)
		for _, r := range c.Ranges {
			end := r.Offset + r.Length
			g.segments[r.Seq] = data[r.Offset:end:end]
		}
	}
	g.held = &settling{leases: g.leases, chunks: g.near.chunks, segments: g.segments}
	loaded.peer = bytes
	return g.finish(ctx, lost, loaded, spare)
}

// copies serves the whole batch from a body of its own. While it waits for memory it holds none, and while it waits for
// bytes it takes chunks only if there is room now.
func (g *gathering) copies(ctx context.Context, whole, ranged []int) (*chunkindex.Body, error) {
	if g.near.origin == fromPeer {
		if err := g.source.resolve(ctx, g.near); err != nil {
			return nil, err
		}
	}
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

// lay does what lay of the batch does; a far of nil takes nothing.
func (f *far) lay(segments [][]byte, buf []byte) (spare []byte) {
	if f == nil {
		return buf
	}
	return f.batch.lay(segments, buf)
}

// start begins to ask the peers. ask waits for them; stop makes that short.
func (g *gathering) start(ctx context.Context) (ask func() (int64, []chunkindex.ChunkRanges), stop func()) {
	if g.far == nil || len(g.far.chunks) == 0 {
		return func() (int64, []chunkindex.ChunkRanges) { return 0, nil }, func() {}
	}
	ctx, stop = context.WithCancel(ctx)
	o := &ownersTier{asker: &g.asker}
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

// finish brings what peers did not send by the ways of this gateway, and makes the body.
func (g *gathering) finish(ctx context.Context, lost []chunkindex.ChunkRanges, loaded answer, spare []byte) (*chunkindex.Body, error) {
	if len(lost) > 0 {
		s, b := g.source, g.far.of(lost)
		b.origin = afterPeers
		s.path.reown() // what has come to this gateway is brought as its own
		whole, ranged := s.chooseReads(b)
		more, err := s.into(ctx, b, whole, ranged, g.segments, spare)
		if err != nil {
			return nil, err
		}
		loaded.disk, loaded.store = loaded.disk+more.disk, loaded.store+more.store
	}
	if g.far != nil {
		for _, t := range g.far.twins {
			g.segments[t[0]] = g.segments[t[1]]
		}
	}
	loaded.peer += g.sent
	return chunkindex.NewBody(g.segments, tiers(g.total, loaded, time.Since(g.begun)), g.close).OnSettle(g.settle), nil
}

// reserve takes memory for what peers are asked for and for more bytes of the body, none if there are none.
func (g *gathering) reserve(ctx context.Context, more int64) (buf []byte, err error) {
	if g.used = more; g.far != nil {
		g.used += g.far.bytes
	}
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
	clear(g.segments)
	g.source.path.segments.Put(g.list)
}

// acquire leases chunks, each given by its number in b.chunks, in this order.
func (s *Source) acquire(ctx context.Context, b *batch, which []int) (*chunkcache.Leases[key], error) {
	wait, err := s.begin(ctx, b, which)
	if err != nil {
		return nil, err
	}
	return wait()
}

// begin does what acquire does, but for the wait.
func (s *Source) begin(ctx context.Context, b *batch, which []int) (wait func() (*chunkcache.Leases[key], error), err error) {
	if l, ok := s.lease(b, which); ok {
		if b.next != unknown {
			s.path.look()
		}
		return func() (*chunkcache.Leases[key], error) { return l, nil }, nil
	}
	chunks := make([]int, len(which))
	for n, i := range which {
		chunks[n] = b.chunks[i].Chunk
	}
	f := &fetch{source: s, first: b.visit != nil && b.visit.First()}
	f.want(chunks)
	wait, err = s.path.cache.Start(ctx, f.request())
	if err != nil {
		return nil, err
	}
	if b.next != unknown {
		s.path.look() // now that what this request needs is on its way
	}
	return wait, nil
}

// lease leases chunks if all of them are in memory.
func (s *Source) lease(b *batch, which []int) (*chunkcache.Leases[key], bool) {
	var bytes uint64
	for _, i := range which {
		bytes += uint64(s.index.Chunk(b.chunks[i].Chunk).Length)
	}
	return s.path.cache.Lease(s.chunks, len(which), bytes, func(i int) int { return b.chunks[which[i]].Chunk })
}

// into brings a batch into segments of its own. It waits for no memory.
func (s *Source) into(ctx context.Context, b *batch, whole, ranged []int, segments [][]byte, spare []byte) (answer, error) {
	rest, loaded, err := s.copyChunks(ctx, b, whole, segments)
	if b.next != unknown {
		s.path.look()
	}
	if rest = append(ranged, rest...); err != nil || len(rest) == 0 {
		return loaded, err
	}
	l := &load{source: s, passes: b.visit != nil && b.visit.Passed(), spare: spare, came: loaded}
	err = s.path.tiers.Load(ctx, l, b.fills(rest, segments))
	return l.came, err
}

// copyChunks copies samples out of whole chunks, a few chunks at a time. It returns those
// chunks that there was no room for, and how many bytes came from chunks that were not in memory.
func (s *Source) copyChunks(ctx context.Context, b *batch, whole []int, segments [][]byte) (rest []int, loaded answer, err error) {
	numbers := make([]int, len(whole))
	for n, i := range whole {
		numbers[n] = b.chunks[i].Chunk
	}
	var mu sync.Mutex // guards rest and loaded
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.path.gate.places())
	for _, group := range s.group(numbers, s.path.cfg.PartSize) {
		for n := range group {
			group[n] = whole[group[n]]
		}
		g.Go(func() error {
			missing := s.missing(b, group)
			l, err := s.acquire(ctx, b, group)
			if err != nil && !errors.Is(err, chunkcache.ErrNoRoom) {
				return err
			}
			mu.Lock()
			if err != nil {
				rest = append(rest, group...)
			} else {
				loaded.disk += missing.disk
				loaded.store += missing.store
			}
			mu.Unlock()
			if err != nil {
				return nil
			}
			defer l.Close()
			for n, i := range group {
				data := l.Bytes(n)
				for _, r := range b.chunks[i].Ranges {
					copy(segments[r.Seq], data[r.Offset:])
				}
			}
			return nil
		})
	}
	err = g.Wait() // before the others are read
	return rest, loaded, err
}

// answer is how many bytes of a batch are not in memory, by the tier that answers for them.
type answer struct{ disk, peer, store int64 }

// missing adds up what is wanted of those of some chunks, given by their numbers in b.chunks, that are not in memory.
func (s *Source) missing(b *batch, which []int) (n answer) {
	for _, i := range which {
		switch c := b.chunks[i]; {
		case s.resident(c.Chunk):
		case s.path.disk.answers(s, c.Chunk):
			n.disk += bytesOf(c)
		default:
			n.store += bytesOf(c)
		}
	}
	return n
}

// tiers says how much of a batch of total bytes each tier answered for, and that the wait was for the last of them.
func tiers(total int64, missing answer, wait time.Duration) []chunkindex.TierTime {
	list := []chunkindex.TierTime{{Tier: "memory", Bytes: total - missing.disk - missing.peer - missing.store}}
	if missing.disk > 0 {
		list = append(list, chunkindex.TierTime{Tier: "disk", Bytes: missing.disk})
	}
	if missing.peer > 0 {
		list = append(list, chunkindex.TierTime{Tier: "peer", Bytes: missing.peer})
	}
	if missing.store > 0 {
		list = append(list, chunkindex.TierTime{Tier: "store", Bytes: missing.store})
	}
	list[len(list)-1].Wait = wait
	return list
}

// lay gives each sample of a batch its segment of buf, and returns the rest.
func (b *batch) lay(segments [][]byte, buf []byte) (spare []byte) {
	for _, c := range b.chunks {
		for _, r := range c.Ranges {
			segments[r.Seq], buf = buf[:r.Length:r.Length], buf[r.Length:]
		}
	}
	return buf
}
