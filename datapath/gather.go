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

// gathering is one batch on its way into a body: leased chunks, and pinned extracts, of its own and of others.
//
// Its memory is taken in this order. First comes that of its own extract: the batch waits for it while it holds nothing else (reserve).
// Then come the chunks, all at once or not at all (begin). A batch that waits for bytes holds memory, so no load waits for memory, nor
// does a peer while it answers: else two gateways could wait for each other.
type gathering struct {
	source   *Source
	near     *request                  // what this gateway brings itself
	far      request                   // what peers are asked for
	list     *[][]byte                 // of the path's pool
	segments [][]byte                  // of the whole body, in the list
	leases   *chunkcache.Leases[key]   // nil: none
	leased   []int                     // the chunks of the leases, by their numbers in near.chunks
	own      *extract                  // nil: none
	pinned   []*extract                // own among them
	waits    []awaited                 // samples of extracts
	kept     []*chunkcache.Buffer[key] // of what was needed of chunks that were given back
	came     tally
}

// awaited is a sample that a batch waits for, and its segment.
type awaited struct {
	*sample
	seq  int
	late bool // it was on its way when the batch came
}

// manner is how a batch is brought.
type manner struct {
	leases bool // chunks that are brought as a whole are leased together; else what the batch needs of them is copied
	joins  bool // samples are used that other batches bring
}

// errJoined says that a sample did not come that another batch has begun to bring.
var errJoined = errors.New("a sample that another batch was to bring has not come")

// body brings a batch.
func (s *Source) body(ctx context.Context, b, near *request, far request) (*batch.Body, error) {
	begun := time.Now()
	g, err := s.gather(ctx, near, far)
	if err != nil {
		return nil, err
	}
	return batch.NewBody(g.segments, g.came.tiers(b.bytes, time.Since(begun)), g.close).OnSettle(g.settle), nil
}

// gather brings both parts of a batch: with leased chunks if these fit into memory together, and with the samples of others if these come.
func (s *Source) gather(ctx context.Context, near *request, far request) (*gathering, error) {
	list := s.path.segments.Get().(*[][]byte)
	n := max(near.segments, far.segments)
	*list = slices.Grow((*list)[:0], n)[:n]
	g := &gathering{source: s, near: near, far: far, list: list, segments: *list}
	whole, ranged := s.chooseReads(near)
	by := manner{leases: near.lent.own == nil, joins: near.lent.own == nil}
	for {
		err := g.bring(ctx, whole, ranged, by)
		switch noRoom := errors.Is(err, chunkcache.ErrNoRoom); {
		case err == nil:
			return g, nil
		case noRoom && by.leases:
			by.leases = false
		case by.joins && (noRoom || errors.Is(err, errJoined)):
			by.joins = false
		default:
			g.close()
			return nil, err
		}
		g.giveBack()
	}
}

// bring brings a batch, of which some near chunks, given by their numbers in near.chunks, are brought as a whole, and of others just samples.
func (g *gathering) bring(ctx context.Context, whole, ranged []int, by manner) error {
	s, copied := g.source, []int(nil)
	if !by.leases {
		copied, whole = whole, nil
	}
	var d *demand
	if len(copied)+len(ranged)+len(g.far.chunks) > 0 {
		d = &demand{near: g.near.some(copied, ranged), copied: len(copied), far: g.far, joins: by.joins}
		if err := g.claim(ctx, d); err != nil {
			return err
		}
	}
	var wait func() (*chunkcache.Leases[key], error)
	if len(whole) > 0 {
		g.came = s.missing(g.near, whole)
		var err error
		if wait, err = s.begin(ctx, g.near, whole); err != nil {
			return err
		}
	}
	if g.own != nil && len(g.own.samples) > 0 {
		g.own.begin(ctx, d)
	}
	if wait != nil {
		if err := g.lease(whole, wait); err != nil {
			return err
		}
	}
	return g.await(ctx)
}

// claim pins the extracts in which samples of the batch are, or will be, and makes one for the others. d is left with what is wanted of that
// one, in ranges that are numbered by its samples.
func (g *gathering) claim(ctx context.Context, d *demand) error {
	if d.near.origin == fromPeer {
		if err := g.source.resolve(ctx, &d.near); err != nil {
			return err
		}
	}
	x := &g.source.path.extracts
	for n := x.missing(g.source, d); ; n = d.near.bytes + d.far.bytes {
		memory, err := g.reserve(ctx, n)
		if err != nil || g.pin(ctx, d, memory) {
			return err
		}
		memory.close() // samples have gone meanwhile
	}
}

// reserve takes memory for n bytes of samples, and for the gaps between them if they may come from the store.
func (g *gathering) reserve(ctx context.Context, n int64) (room, error) {
	if n == 0 {
		return room{}, nil
	}
	if len(g.near.chunks) > 0 {
		n = g.source.path.withGaps(n)
	}
	return g.source.room(ctx, g.near, n)
}

// pin is claim with some memory for what is neither there nor on its way. It reports whether that is enough.
func (g *gathering) pin(ctx context.Context, d *demand, memory room) bool {
	x := &g.source.path.extracts
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.absent(g.source, d) > int64(len(memory.bytes)) {
		return false
	}
	g.own = &extract{all: x, source: g.source, room: memory, pins: 1, ahead: d.far.origin == ofRun, span: tracing.Of(ctx)}
	g.pinned = append(g.pinned, g.own)
	copied := d.near.chunks[:d.copied]
	d.near = g.take(&d.near, d.joins, false)
	d.copied = 0
	for _, c := range copied {
		if d.copied < len(d.near.chunks) && d.near.chunks[d.copied].Chunk == c.Chunk {
			d.copied++
		}
	}
	d.far = g.take(&d.far, d.joins, true)
	return true
}

// take finds the sample of each range of a part of the batch, and returns what is left of the part for the new extract. The caller holds the
// lock of the extracts.
func (g *gathering) take(b *request, joins, far bool) request {
	x, chunks := g.own.all, make([]batch.ChunkRanges, 0, len(b.chunks))
	for _, c := range b.chunks {
		var own []batch.Range
		for _, r := range c.Ranges {
			at := samplePlace{g.source, c.Chunk, r.Offset, r.Length, far}
			is := x.find(at)
			switch {
			case is != nil && is.in == g.own: // the batch has the sample more than once
			case is != nil && joins:
				g.join(is)
			default:
				is = g.own.add(at, r.Hot)
				x.samples[at] = is
				own = append(own, r)
				own[len(own)-1].Seq = len(g.own.samples) - 1
			}
			g.waits = append(g.waits, awaited{sample: is, seq: r.Seq, late: !is.came()})
		}
		if own != nil {
			chunks = append(chunks, batch.ChunkRanges{Chunk: c.Chunk, Ranges: own})
		}
	}
	return *b.of(chunks)
}

// join pins the extract of a sample that another batch has begun to bring. The caller holds the lock of the extracts.
func (g *gathering) join(is *sample) {
	is.joined++
	if !slices.Contains(g.pinned, is.in) {
		is.in.pins++
		g.pinned = append(g.pinned, is.in)
	}
}

// lease waits for chunks, given by their numbers in near.chunks, and shows their samples.
func (g *gathering) lease(whole []int, wait func() (*chunkcache.Leases[key], error)) (err error) {
	if g.leases, err = wait(); err != nil {
		return err
	}
	g.leased = whole
	for n, i := range whole {
		data := g.leases.Bytes(n)
		for _, r := range g.near.chunks[i].Ranges {
			end := r.Offset + r.Length
			g.segments[r.Seq] = data[r.Offset:end:end]
		}
	}
	return nil
}

// await waits for the samples of extracts, and shows them.
func (g *gathering) await(ctx context.Context) (err error) {
	if len(g.waits) == 0 {
		return nil
	}
	waited := g.trace(ctx)
	defer func() { waited(err) }()
	limited, cancel := partOf(ctx)
	defer cancel()
	for _, w := range g.waits {
		if err := g.awaitOne(ctx, limited, w); err != nil {
			return err
		}
		g.segments[w.seq] = w.data
	}
	if g.own.ended != nil {
		<-g.own.ended
		g.came.add(g.own.came)
	}
	g.count()
	return nil
}

// awaitOne waits for one sample; for one that was read ahead just until limited ends, so that there is time left to ask for it.
func (g *gathering) awaitOne(ctx, limited context.Context, w awaited) error {
	if !w.came() {
		if !w.in.ahead || w.in == g.own {
			limited = ctx
		}
		select {
		case <-w.done:
		case <-limited.Done():
		}
	}
	switch {
	case w.came() && w.err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case w.in != g.own && (!w.came() || w.err == errGivenUp || w.in.ctx.Err() != nil):
		return errJoined
	case w.in.ctx.Err() != nil: // at the deadline, which is that of the batch
		<-ctx.Done()
		return context.Cause(ctx)
	case w.err == errGivenUp:
		<-w.in.ended
		return w.in.err
	}
	return w.err
}

// trace begins the spans of the waits for what others bring. It returns what ends them.
func (g *gathering) trace(ctx context.Context) (ended func(error)) {
	spans, linked := map[string]tracing.Span{}, map[*extract]bool{g.own: true}
	for _, w := range g.waits {
		if linked[w.in] || !w.late && !w.in.ahead {
			continue
		}
		linked[w.in] = true
		name := "wait for samples"
		if w.in.ahead {
			name = "wait for peer read-ahead"
		}
		span, begun := spans[name]
		if !begun {
			_, span = tracing.Start(ctx, name)
			spans[name] = span
		}
		span.Link(w.in.span)
	}
	return func(err error) {
		for _, span := range spans {
			span.Ended(err)
		}
	}
}

// count counts the samples that were there, or on their way.
func (g *gathering) count() {
	p := g.source.path
	for _, w := range g.waits {
		n := uint64(len(w.data))
		switch {
		case w.in == g.own:
		case w.in.hot:
			p.hot.hits.Add(1)
			p.hot.hitBytes.Add(n)
		case w.in.ahead:
			p.ahead.hits.Add(1)
			p.ahead.bytes.Add(n)
			g.came.peer += int64(n)
		case w.late && w.place.far:
			g.came.peer += int64(n)
		case w.late:
			g.came.store += int64(n)
		}
	}
}

// giveBack ends the use of all that the batch holds.
func (g *gathering) giveBack() {
	if g.leases != nil {
		g.leases.Close()
	}
	for _, c := range g.kept {
		c.Close()
	}
	if g.own != nil && g.own.ended == nil {
		settle(g.own.samples, errGivenUp) // its load has not begun
	}
	if len(g.waits) > 0 {
		g.source.path.extracts.leave(g.waits, g.own)
	}
	for _, e := range g.pinned {
		e.unpin()
	}
	g.leases, g.leased, g.kept, g.own, g.pinned, g.waits, g.came = nil, nil, nil, nil, nil, nil, tally{}
}

func (g *gathering) close() {
	g.giveBack()
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

// into brings a batch into samples, by the numbers of its ranges. It waits for no memory.
func (l *load) into(ctx context.Context, b *request, whole, ranged []int, samples []*sample) error {
	s := l.source
	rest, came, err := s.copyChunks(ctx, b, whole, samples)
	l.came.add(came)
	if b.next != unknown {
		s.path.look()
	}
	if rest = append(ranged, rest...); err != nil || len(rest) == 0 {
		return err
	}
	l.alone = b.visit != nil && b.visit.ownReads.Load() > 0
	return s.path.tiers.Load(ctx, l, b.fills(rest, samples))
}

// copyChunks copies samples out of whole chunks, a few chunks at a time. It returns those
// chunks that there was no room for, and how many bytes came from chunks that were not in memory.
func (s *Source) copyChunks(ctx context.Context, b *request, whole []int, samples []*sample) (rest []int, came tally, err error) {
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
					samples[r.Seq].take(data[r.Offset:])
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
