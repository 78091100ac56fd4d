package datapath

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/tracing"
)

// gathering is one batch on its way into a body. Its near part comes by the ways of this gateway:
// as slices of leased chunks where these fit into memory together, else as copies. Its far part
// comes from other gateways: from the run of its rank (readAhead), and for the rest by questions
// (ownersTier).
//
// Its memory is taken in this order. First comes a body of its own, for bytes that are copied or
// sent by peers: the batch waits for it while it holds nothing else (reserve). Then come the chunks
// of this gateway, all at once or not at all (begin). A batch is served from a run only if there is
// memory for its other samples at once. A batch that waits for a peer holds memory, so no peer waits
// for memory while it answers: else two gateways could wait for each other.
type gathering struct {
	load     // of the near part; came and room are of both
	near     *request
	far      request                   // but for what is in the run
	run      *batchRun                 // nil: none
	used     int64                     // bytes of the room that segments lie in
	list     *[][]byte                 // of the path's pool
	segments [][]byte                  // of the whole body, in the list
	leases   *chunkcache.Leases[key]   // of the chunks of the near part; nil: none
	kept     []*chunkcache.Buffer[key] // of what was needed of chunks that were given back
}

// body brings a batch.
func (s *Source) body(ctx context.Context, b, near *request, far request, run *batchRun) (*batch.Body, error) {
	begun := time.Now()
	g, err := s.gather(ctx, near, far, run)
	if run != nil && errors.Is(err, chunkcache.ErrNoRoom) {
		g, err = s.gather(ctx, near, far, nil)
	}
	if err != nil {
		return nil, err
	}
	for _, t := range far.twins {
		g.segments[t[0]] = g.segments[t[1]]
	}
	return batch.NewBody(g.segments, g.came.tiers(b.bytes, time.Since(begun)), g.close).OnSettle(g.settle), nil
}

// gather brings both parts of a batch. With a run it waits for no memory.
func (s *Source) gather(ctx context.Context, near *request, far request, run *batchRun) (*gathering, error) {
	list := s.path.segments.Get().(*[][]byte)
	n := max(near.segments, far.segments)
	*list = slices.Grow((*list)[:0], n)[:n]
	g := &gathering{load: load{source: s}, near: near, far: far, run: run, list: list, segments: *list}
	if run != nil {
		hurried := *near
		hurried.tries = true
		g.near, g.far = &hurried, s.path.ahead.take(run, &far, g.segments)
	}
	whole, ranged := s.chooseReads(g.near)
	err := chunkcache.ErrNoRoom
	if len(ranged) == 0 && near.lent.own == nil {
		err = g.slices(ctx, whole)
	}
	if errors.Is(err, chunkcache.ErrNoRoom) {
		g.giveBack()
		err = g.copies(ctx, whole, ranged)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	g.came.peer += far.bytes - g.far.bytes
	return g, nil
}

// slices serves the near part from leased chunks, and the far part from a body of its own.
func (g *gathering) slices(ctx context.Context, whole []int) error {
	if err := g.reserve(ctx, &g.far); err != nil {
		return err
	}
	g.came = g.source.missing(g.near, whole)
	wait, err := g.source.begin(ctx, g.near, whole)
	if err != nil {
		return err
	}
	return g.withFar(ctx, func() error {
		leases, err := wait()
		if err != nil {
			return err
		}
		g.leases = leases
		for i, c := range g.near.chunks {
			data := leases.Bytes(i)
			for _, r := range c.Ranges {
				end := r.Offset + r.Length
				g.segments[r.Seq] = data[r.Offset:end:end]
			}
		}
		return nil
	})
}

// copies serves the whole batch from a body of its own. While it waits for memory it holds none, and
// while it waits for bytes it takes chunks only if there is room now.
func (g *gathering) copies(ctx context.Context, whole, ranged []int) error {
	if g.near.origin == fromPeer {
		if err := g.source.resolve(ctx, g.near); err != nil {
			return err
		}
	}
	if err := g.reserve(ctx, g.near, &g.far); err != nil {
		return err
	}
	return g.withFar(ctx, func() error {
		return g.into(ctx, g.near, whole, ranged, g.segments)
	})
}

// reserve takes memory for parts of the batch, none if they have no bytes, and lays their samples
// out in it.
func (g *gathering) reserve(ctx context.Context, parts ...*request) (err error) {
	g.used, g.spare, g.came = 0, nil, tally{}
	for _, part := range parts {
		g.used += part.bytes
	}
	if g.used == 0 {
		return nil
	}
	n := g.used
	if len(g.near.chunks) > 0 {
		n = g.source.path.withGaps(n)
	}
	g.room, err = g.source.room(ctx, g.near, n)
	if err != nil {
		return err
	}
	g.spare = g.room.bytes
	for _, part := range parts {
		g.spare = part.lay(g.segments, g.spare)
	}
	return nil
}

// withFar brings the far part while near brings the other one. What no owner has sent comes last.
func (g *gathering) withFar(ctx context.Context, near func() error) error {
	if len(g.far.chunks) == 0 {
		return near()
	}
	during, stop := context.WithCancel(ctx)
	defer stop()
	asked, lost := &load{source: g.source}, &unsent{}
	var running sync.WaitGroup
	fills := make([]*fill, len(g.far.chunks))
	for i, c := range g.far.chunks {
		fills[i] = &fill{ChunkRanges: c, segments: g.segments}
	}
	running.Go(func() {
		first := hotTier{g.source.path.hot, ownersTier{&g.far, lost}}
		_ = first.Load(during, asked, fills) // what did not come is in lost
	})
	err := near()
	if err != nil {
		stop()
	}
	if running.Wait(); err != nil {
		return err
	}
	g.came.add(asked.came)
	if len(lost.fills) > 0 && g.far.origin != ofRun {
		return hereTier{&g.far}.Load(ctx, &g.load, lost.fills)
	}
	for _, x := range lost.fills {
		for _, r := range x.Ranges {
			g.segments[r.Seq] = nil
		}
	}
	return nil
}

func (g *gathering) giveBack() {
	g.room.close()
	g.room = room{}
}

func (g *gathering) close() {
	if g.leases != nil {
		g.leases.Close()
	}
	for _, c := range g.kept {
		c.Close()
	}
	g.giveBack()
	g.source.path.ahead.release(g.run)
	clear(g.segments)
	g.source.path.segments.Put(g.list)
}

// begin leases chunks, each given by its number in b.chunks, in this order. wait returns the leases
// once all chunks are there.
func (s *Source) begin(ctx context.Context, b *request, which []int) (wait func() (*chunkcache.Leases[key], error), err error) {
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
	f := &fetch{load: load{source: s}, first: b.visit != nil && b.visit.First, chunks: chunks}
	var span tracing.Span
	request := f.request()
	request.Told = func(load any) { span.Link(load.(tracing.Span)) }
	loaded, err := s.path.cache.Start(ctx, request)
	if err != nil {
		return nil, err
	}
	_, span = tracing.Start(ctx, "wait for chunks")
	if b.next != unknown {
		s.path.look() // now that what this request needs is on its way
	}
	return func() (*chunkcache.Leases[key], error) {
		l, err := loaded()
		span.Ended(err)
		return l, err
	}, nil
}

// lease leases chunks if all of them are in memory.
func (s *Source) lease(b *request, which []int) (*chunkcache.Leases[key], bool) {
	return s.path.cache.Lease(s.chunks, len(which), true, func(i int) int { return b.chunks[which[i]].Chunk })
}

// into brings a batch into segments of its own. It waits for no memory.
func (l *load) into(ctx context.Context, b *request, whole, ranged []int, segments [][]byte) error {
	s := l.source
	rest, came, err := s.copyChunks(ctx, b, whole, segments)
	l.came.add(came)
	if b.next != unknown {
		s.path.look()
	}
	if rest = append(ranged, rest...); err != nil || len(rest) == 0 {
		return err
	}
	l.alone = b.visit != nil && b.visit.ownReads.Load() > 0
	return s.path.tiers.Load(ctx, l, b.fills(rest, segments))
}

// copyChunks copies samples out of whole chunks, a few chunks at a time. It returns those
// chunks that there was no room for, and how many bytes came from chunks that were not in memory.
func (s *Source) copyChunks(ctx context.Context, b *request, whole []int, segments [][]byte) (rest []int, came tally, err error) {
	numbers := make([]int, len(whole))
	for n, i := range whole {
		numbers[n] = b.chunks[i].Chunk
	}
	var mu sync.Mutex // guards rest and came
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.path.gate.places())
	for _, side := range s.group(numbers, s.path.cfg.PartSize) {
		group := whole[:len(side)]
		whole = whole[len(side):]
		g.Go(func() error {
			missing := s.missing(b, group)
			wait, err := s.begin(ctx, b, group)
			var l *chunkcache.Leases[key]
			if err == nil {
				l, err = wait()
			}
			if err != nil && !errors.Is(err, chunkcache.ErrNoRoom) {
				return err
			}
			mu.Lock()
			if err != nil {
				rest = append(rest, group...)
			} else {
				came.add(missing)
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
	return rest, came, err
}

// tally is how many bytes of a batch were not in memory, by the tier that answered for them.
type tally struct{ disk, peer, store int64 }

func (t *tally) add(more tally) {
	t.disk, t.peer, t.store = t.disk+more.disk, t.peer+more.peer, t.store+more.store
}

// tiers says how much of a batch of total bytes each tier answered for, and that the wait was for
// the last of them.
func (t tally) tiers(total int64, wait time.Duration) []batch.TierTime {
	list := []batch.TierTime{{Tier: "memory", Bytes: total - t.disk - t.peer - t.store}}
	for _, tier := range []batch.TierTime{{Tier: "disk", Bytes: t.disk}, {Tier: "peer", Bytes: t.peer}, {Tier: "store", Bytes: t.store}} {
		if tier.Bytes > 0 {
			list = append(list, tier)
		}
	}
	list[len(list)-1].Wait = wait
	return list
}

// missing adds up what is wanted of those of some chunks, given by their numbers in b.chunks, that
// are not in memory.
func (s *Source) missing(b *request, which []int) (n tally) {
	for _, i := range which {
		switch c := b.chunks[i]; {
		case s.chunks.Resident(c.Chunk):
		case s.path.disk.answers(s, c.Chunk):
			n.disk += bytesOf(c)
		default:
			n.store += bytesOf(c)
		}
	}
	return n
}

// lay gives each sample of a batch its segment of buf, and returns the rest.
func (b *request) lay(segments [][]byte, buf []byte) (spare []byte) {
	for _, c := range b.chunks {
		for _, r := range c.Ranges {
			segments[r.Seq], buf = buf[:r.Length:r.Length], buf[r.Length:]
		}
	}
	return buf
}
