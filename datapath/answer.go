package datapath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/millrace-data/millrace/cluster/peer"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/shuffle"
)

// Answer reads ranges for another gateway from memory, disk or the store. It sends no queries to
// other gateways, with one exception: it asks the former owner for a chunk that this gateway newly
// owns. The former owner sends the chunk at once or not at all. Answer never waits for memory: the
// requesting gateways hold memory themselves, so gateways could deadlock. The segments are the
// ranges in the order of the query, valid until release. Errors: peer.ErrNotServed,
// peer.ErrMismatch, peer.ErrNotHere, peer.ErrNoRoom, peer.ErrQuota, and the errors of Source.Read.
func (p *Path) Answer(ctx context.Context, q *peer.Query) (segments [][]byte, release func(), err error) {
	body, err := p.answer(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	return body.Segments, body.Close, nil
}

// answer is like Answer, but returns the segments and their release function in a body.
func (p *Path) answer(ctx context.Context, q *peer.Query) (*batch.Body, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := p.sharedAs(q.Dataset, q.Generation)
	if s == nil {
		return nil, fmt.Errorf("answer for %q in generation %q: %w", q.Dataset, q.Generation, peer.ErrNotServed)
	}
	body, err := s.answer(ctx, q)
	if err != nil && s.uses.closing.Err() != nil {
		err = fmt.Errorf("answer for %q in generation %q: %w: %w", q.Dataset, q.Generation, peer.ErrNotServed, err)
	}
	return leaveAfter(s.uses.leave, body, err)
}

// answer reads the ranges that another gateway requests. It is canceled when the source is closed.
func (s *Source) answer(ctx context.Context, q *peer.Query) (*batch.Body, error) {
	ctx, end := s.until(ctx)
	defer end()
	p := s.path
	p.reown()
	b, err := s.questioned(q)
	if err != nil {
		return nil, err
	}
	var body *batch.Body
	if q.Cached {
		body, err = s.answerCached(ctx, b)
	} else {
		body, err = assemblyOf(part{source: s, request: b, near: b, tries: true}).read(ctx)
	}
	if errors.Is(err, chunkcache.ErrNoRoom) {
		err = fmt.Errorf("answer for %d bytes of %q: %w", b.bytes, q.Dataset, p.noRoom())
	}
	if err != nil {
		return nil, err
	}
	p.peerCounts.servedReads.Add(1)
	p.peerCounts.servedBytes.Add(uint64(b.bytes))
	return body, nil
}

// noRoom returns the error of an answer for which the budget has no memory.
func (p *Path) noRoom() error {
	if p.cfg.Quota {
		return peer.ErrQuota
	}
	return peer.ErrNoRoom
}

// questioned converts a query of another gateway into a request, and checks it against the index.
func (s *Source) questioned(q *peer.Query) (*request, error) {
	var chunks []batch.ChunkRanges
	seq := 0
	for _, w := range q.Chunks {
		wrong := w.Chunk < 0 || w.Chunk >= s.index.Chunks()
		if !wrong {
			desc := s.index.Chunk(w.Chunk)
			wrong = desc.Digest != w.Digest || len(w.Ranges) > max(int(desc.Samples), 1) || q.Cached && (len(w.Ranges) != 1 || int64(w.Ranges[0].Length) != desc.Length)
		}
		if wrong {
			return nil, fmt.Errorf("answer for %d ranges of chunk %d of %q: %w", len(w.Ranges), w.Chunk, q.Dataset, peer.ErrMismatch)
		}
		ranges := make([]batch.Range, len(w.Ranges))
		for i, r := range w.Ranges {
			ranges[i] = batch.Range{Seq: seq, Offset: r.Offset, Length: r.Length}
			seq++
		}
		chunks = append(chunks, batch.ChunkRanges{Chunk: w.Chunk, Ranges: ranges})
	}
	b, err := s.newBatch(chunks)
	switch {
	case errors.Is(err, budget.ErrTooLarge):
		return nil, fmt.Errorf("answer for %q: %w: %w", q.Dataset, s.path.noRoom(), err)
	case err != nil:
		return nil, fmt.Errorf("answer for %q: %w: %w", q.Dataset, peer.ErrMismatch, err)
	}
	b.origin = fromPeer
	if q.Reader != nil {
		b.fits = s.path.fits(s, time.Now())
		if q.Reader.Params.Shuffle != shuffle.Full {
			b.next = unfollowed
		}
	}
	return b, nil
}

// answerCached returns one whole chunk from memory or disk. It never reads the store.
func (s *Source) answerCached(ctx context.Context, b *request) (*batch.Body, error) {
	chunk := b.chunks[0].Chunk
	onDisk := s.isOnDisk(chunk)
	if l, ok := s.path.cache.Lease(s.chunks, 1, false, func(int) int { return chunk }); ok {
		return batch.NewBody([][]byte{l.Bytes(0)}, nil, l.Close), nil
	}
	if !onDisk {
		return nil, peer.ErrNotHere
	}
	b.chunks[0].Ranges[0].CRC32C = s.index.Chunk(chunk).CRC32C
	memory, err := s.path.room(ctx, b.bytes, false)
	if err != nil {
		return nil, err
	}
	e := &extract{all: &s.path.extracts, source: s, room: memory, pins: 1}
	e.add(samplePlace{s, chunk, 0, b.chunks[0].Ranges[0].Length, false}, false)
	if rest := s.path.disk.bring(ctx, &load{source: s}, fillsOf(b.chunks, e.samples)); len(rest) > 0 {
		e.unpin()
		return nil, peer.ErrNotHere
	}
	return batch.NewBody([][]byte{e.samples[0].data}, nil, e.unpin), nil
}

// resolve sets the checksums of the ranges of a query, which are samples or whole chunks. A range
// that is read separately from the store is always checked before it is sent.
func (s *Source) resolve(ctx context.Context, b *request) error {
	for _, c := range b.chunks {
		desc := s.index.Chunk(c.Chunk)
		for i, r := range c.Ranges {
			if r.Offset == 0 && int64(r.Length) == desc.Length {
				c.Ranges[i].CRC32C = desc.CRC32C
				continue
			}
			t, err := s.index.Table(ctx, c.Chunk)
			if err != nil {
				return err
			}
			n := sort.Search(t.Len(), func(n int) bool { return t.Offset(n) >= r.Offset })
			for n < t.Len() && t.Offset(n) == r.Offset && t.Length(n) != r.Length {
				n++
			}
			if n == t.Len() || t.Offset(n) != r.Offset {
				return fmt.Errorf("answer for [%d,+%d) of chunk %d of %q: %w", r.Offset, r.Length, c.Chunk, s.name, peer.ErrMismatch)
			}
			c.Ranges[i].CRC32C = t.CRC32C(n)
		}
	}
	return nil
}

// Heard records where a reader of another gateway is in a dataset, and its think time between two
// batches. This gateway then prefetches the chunks that it owns for that reader, as for its own
// readers.
func (p *Path) Heard(dataset, generation string, at shuffle.Cursor, think time.Duration) {
	s := p.sharedAs(dataset, generation)
	if s == nil {
		return
	}
	defer s.leave()
	if at.Plan == nil || at.Epoch == nil {
		return
	}
	p.reown()
	p.readers.Heard(s, at, think, time.Now())
	p.look()
}

// Held lists the chunks of the shared datasets that are in memory. The chunk needed soonest comes
// first.
func (p *Path) Held() []peer.Chunk {
	type dueChunk struct {
		chunk peer.Chunk
		due   time.Duration
	}
	shared := map[*Source]bool{}
	p.mu.Lock()
	for _, s := range p.open {
		shared[s] = s.name != ""
	}
	p.mu.Unlock()
	var all []dueChunk
	for s, chunk := range p.inMemory() {
		if shared[s] && s.chunks.Resident(chunk) {
			all = append(all, dueChunk{s.peerChunk(chunk), p.readers.NextUse(s, chunk).In})
		}
	}
	slices.SortFunc(all, func(a, b dueChunk) int { return cmp.Compare(a.due, b.due) })
	out := make([]peer.Chunk, len(all))
	for i, h := range all {
		out[i] = h.chunk
	}
	return out
}
