package datapath

import (
	"context"
	"slices"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/shuffle"
)

// part is the share of a batch from one source: leased chunks, and pinned extracts of this batch
// and of other batches.
type part struct {
	source   *Source
	at       shuffle.Cursor    // position of the reader in the source
	name     func(error) error // adds the source's name to an error; nil: there is only one source
	*request                   // ranges are numbered by the segments of the whole batch
	tries    bool              // do not wait for memory, but return chunkcache.ErrNoRoom

	near          *request            // the chunks that this gateway reads itself
	far           request             // the chunks that peers are asked for
	whole, ranged []batch.ChunkRanges // the chunks of near: those to read whole, and those to read by the ranges of their samples

	leased []batch.ChunkRanges                     // the chunks of near to lease
	wait   func() (*chunkcache.Leases[key], error) // returns the leases; nil: nothing is being loaded
	leases *chunkcache.Leases[key]                 // of leased
	need   *demand                                 // samples needed from extracts; nil: none
	own    *extract
	pinned []*extract // including own
	waits  []pendingSample
	kept   []*chunkcache.Buffer[key] // copies of the needed bytes of chunks whose lease has ended
	came   tally
}

// pendingSample is a sample that a batch waits for, with the index of its segment.
type pendingSample struct {
	*sample
	seq      int
	inFlight bool // the sample was not finished when the batch arrived
}

func (p *part) named(err error) error {
	if p.name == nil || err == nil {
		return err
	}
	return p.name(err)
}

// plan computes the chunks to lease and the samples needed from extracts. It returns the number of
// bytes in samples that no batch is loading, or in all samples if all is set.
func (p *part) plan(ctx context.Context, by manner, all bool) (bytes int64, err error) {
	copied := p.whole
	if p.leased, p.need = nil, nil; by.leases {
		p.leased, copied = p.whole, nil
	}
	if len(copied)+len(p.ranged)+len(p.far.chunks) == 0 {
		return 0, nil
	}
	d := &demand{near: *p.near.of(slices.Concat(copied, p.ranged)), copied: len(copied), far: p.far, joins: by.joins}
	if d.near.origin == fromPeer {
		if err := p.source.resolve(ctx, &d.near); err != nil {
			return 0, err
		}
	}
	if p.need = d; all {
		return d.near.bytes + d.far.bytes, nil
	}
	return p.source.path.extracts.missing(p.source, d), nil
}

// pin pins the extracts that have, or will have, samples of the part, and makes a new extract for
// the others. The new extract takes its bytes from memory, plus an eighth for gaps if there is
// enough. pin reports whether the memory suffices. It narrows p.need to the new extract, with
// ranges that are numbered by its samples.
func (p *part) pin(ctx context.Context, memory *room, gaps *int64) bool {
	x, d := &p.source.path.extracts, p.need
	x.mu.Lock()
	defer x.mu.Unlock()
	x.claims++
	n := x.absent(p.source, d)
	if n > int64(len(memory.bytes)) {
		return false
	}
	more := min(n/8, *gaps, int64(len(memory.bytes))-n)
	own := memory.hold()
	own.bytes, memory.bytes, *gaps = memory.bytes[:n+more:n+more], memory.bytes[n+more:], *gaps-more
	p.own = &extract{all: x, source: p.source, room: own, pins: 1, ahead: d.far.origin == ofRun, span: tracing.Of(ctx)}
	p.pinned = append(p.pinned, p.own)
	copied := d.near.chunks[:d.copied]
	d.near = p.take(&d.near, false)
	d.copied = 0
	for _, c := range copied {
		if d.copied < len(d.near.chunks) && d.near.chunks[d.copied].Chunk == c.Chunk {
			d.copied++
		}
	}
	d.far = p.take(&d.far, true)
	return true
}

// take finds the sample of each range of a request, and adds missing samples to the part's own
// extract. It returns the request of the added samples. The caller holds the lock of the extracts.
func (p *part) take(b *request, far bool) request {
	x, chunks := p.own.all, make([]batch.ChunkRanges, 0, len(b.chunks))
	for _, c := range b.chunks {
		var own []batch.Range
		for _, r := range c.Ranges {
			at := samplePlace{p.source, c.Chunk, r.Offset, r.Length, far}
			is := x.find(at)
			switch {
			case is != nil && is.in == p.own: // the batch contains the sample more than once
			case is != nil && (p.need.joins || is.came()):
				p.join(is)
			default:
				is = p.own.add(at, r.Hot)
				if x.samples[at] == nil { // otherwise another extract also has the sample, and find continues to return that one
					x.samples[at] = is
				}
				own = append(own, r)
				own[len(own)-1].Seq = len(p.own.samples) - 1
			}
			p.waits = append(p.waits, pendingSample{sample: is, seq: r.Seq, inFlight: !is.came()})
		}
		if own != nil {
			chunks = append(chunks, batch.ChunkRanges{Chunk: c.Chunk, Ranges: own})
		}
	}
	return *b.of(chunks)
}

// join pins the extract of a sample that another batch is loading or has loaded. The caller holds
// the lock of the extracts.
func (p *part) join(is *sample) {
	if x := is.in.all; is.in.claimed != x.claims {
		is.in.claimed = x.claims
		is.in.pins++
		p.pinned = append(p.pinned, is.in)
	}
}

// begin starts to load the part. It does not block.
func (p *part) begin(ctx context.Context) (err error) {
	if len(p.leased) > 0 {
		p.came = p.source.missing(p.leased)
		if p.leases, p.wait, err = p.source.begin(ctx, p.near, p.leased); err != nil {
			return err
		}
	}
	p.beginSamples(ctx)
	return nil
}

// beginSamples starts to load the part's own extract, if it has one that has not been started.
func (p *part) beginSamples(ctx context.Context) {
	if p.own != nil && p.own.ended == nil && len(p.own.samples) > 0 {
		p.own.begin(ctx, p.need)
	}
}

// await waits for the loads that begin started, and stores slices of the data in segments.
func (p *part) await(ctx context.Context, segments [][]byte) (err error) {
	if wait := p.wait; wait != nil {
		p.wait = nil
		if p.leases, err = wait(); err != nil {
			return err
		}
	}
	for n, c := range p.leased {
		data := p.leases.Bytes(n)
		for _, r := range c.Ranges {
			end := r.Offset + r.Length
			segments[r.Seq] = data[r.Offset:end:end]
		}
	}
	if len(p.waits) == 0 {
		return nil
	}
	return p.awaitSamples(ctx, segments)
}

// awaitSamples waits for the samples of extracts.
func (p *part) awaitSamples(ctx context.Context, segments [][]byte) (err error) {
	span := p.trace(ctx)
	defer func() { span.Ended(err) }()
	for _, w := range p.waits {
		if err := p.awaitOne(ctx, w); err != nil {
			return err
		}
		segments[w.seq] = w.data
	}
	if p.own.ended != nil {
		<-p.own.ended
		p.came.add(p.own.came)
	}
	return nil
}

// awaitOne waits for one sample. If another batch has requested it from a peer, awaitOne waits for
// only half of the remaining time, so that there is time left to request the sample itself.
func (p *part) awaitOne(ctx context.Context, w pendingSample) error {
	if !w.came() {
		limited, cancel := ctx, func() {}
		if w.place.far && w.in != p.own {
			limited, cancel = partOf(ctx)
		}
		select {
		case <-w.wait():
		case <-limited.Done():
		}
		cancel()
	}
	switch {
	case w.came() && w.err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case w.in != p.own:
		return errJoined
	case w.in.ctx.Err() != nil: // the load reached its deadline, which is also the batch's
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return w.err
}

// trace begins the span of the wait for samples that other batches load, and links it to their
// spans.
func (p *part) trace(ctx context.Context) (span tracing.Span) {
	linked := map[*extract]bool{p.own: true}
	for _, w := range p.waits {
		if linked[w.in] || !w.inFlight && !w.in.ahead {
			continue
		}
		if len(linked) == 1 {
			_, span = tracing.Start(ctx, "wait for samples")
		}
		linked[w.in] = true
		span.Link(w.in.span)
	}
	return span
}

// count updates the counters for samples that other batches have loaded or were loading.
func (p *part) count() {
	path := p.source.path
	for _, w := range p.waits {
		n := uint64(len(w.data))
		switch {
		case w.in == p.own:
		case w.in.hot:
			path.hot.hits.Add(1)
			path.hot.hitBytes.Add(n)
		case w.in.ahead:
			path.ahead.hits.Add(1)
			path.ahead.bytes.Add(n)
			p.came.peer += int64(n)
		case w.inFlight && w.place.far:
			p.came.peer += int64(n)
		case w.inFlight:
			p.came.store += int64(n)
		}
	}
}

// giveBack releases all memory that the part holds. Its waits must have ended.
func (p *part) giveBack() {
	if p.wait != nil {
		p.leases, _ = p.wait()
	}
	if p.leases != nil {
		p.leases.Close()
	}
	for _, c := range p.kept {
		c.Close()
	}
	if p.own != nil && p.own.ended == nil {
		finishAll(p.own.samples, errJoined) // the load of the extract has not begun
	}
	for _, e := range p.pinned {
		e.unpin()
	}
	p.wait, p.leases, p.kept, p.own, p.pinned, p.waits, p.came = nil, nil, nil, nil, nil, nil, tally{}
}

// settle frees memory that the body does not need while it is sent: the bytes of its own extract
// behind the segments, and leased chunks that no segment uses any more. It copies the used segments
// of the other chunks, chunk by chunk: each copy frees memory for the next one. If there is no
// memory for a copy, the chunk stays leased.
func (p *part) settle(segments [][]byte) {
	if p.own != nil && p.own.sole() {
		p.own.room.shrink(p.own.used)
	}
	for at, c := range p.leased {
		var needed []int // indices of segments
		for _, r := range c.Ranges {
			if segments[r.Seq] != nil {
				needed = append(needed, r.Seq)
			}
		}
		if p.leases.Holds(at) && p.copy(at, segments, needed) {
			p.leases.Drop(at)
		}
	}
}

// copy copies the given segments of a chunk. It reports whether the lease of the chunk is no longer
// needed.
func (p *part) copy(at int, segments [][]byte, seqs []int) bool {
	var n int64
	for _, seq := range seqs {
		n += int64(len(segments[seq]))
	}
	if n == 0 {
		return true
	}
	own, ok := p.leases.Instead(at, n)
	if !ok {
		return false
	}
	p.kept = append(p.kept, own)
	to := own.Bytes()
	for _, seq := range seqs {
		k := copy(to, segments[seq])
		segments[seq], to = to[:k:k], to[k:]
	}
	return true
}
