package datapath

import (
	"context"
	"time"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// store is the last tier.
type store struct{}

// Load reads whole chunks, or samples by themselves, from the store.
func (store) Load(ctx context.Context, l *load, fills []*fill) error {
	if err := context.Cause(ctx); err != nil { // given up while another tier was asked: the store need not hear of it
		return err
	}
	if l.fetch != nil {
		return l.fetch.fromStore(ctx, fills)
	}
	var plain []*fill
	for _, x := range fills {
		l.came.store += bytesOf(x.ChunkRanges)
		if l.source.index.Chunk(x.Chunk).Codec == codec.None {
			plain = append(plain, x)
		} else if err := l.source.unpack(ctx, x); err != nil {
			return err
		}
	}
	return l.source.readRanges(ctx, plain, l.spare)
}

// fromStore reads whole chunks that lie side by side.
func (f *fetch) fromStore(ctx context.Context, fills []*fill) error {
	s := f.source
	chunks := make([]arrival, len(fills))
	for i, x := range fills {
		chunks[i] = s.arrival(x.Chunk, x.whole.Bytes(), x.whole.Beside())
	}
	if err := s.readChunks(ctx, chunks, f.part, f.held == s.path.gate); err != nil {
		for _, x := range fills {
			f.fail(ctx, x.whole, err)
		}
		return err
	}
	for i, x := range fills {
		if err := s.arrived(ctx, &chunks[i]); err != nil {
			f.fail(ctx, x.whole, err)
			continue
		}
		x.whole.Publish()
	}
	return nil
}

// fail ends a fill with an error, and first notes it, so that nobody who looks ahead finds the chunk missing and not
// noted. A load that its waiters have left says nothing of the store.
func (f *fetch) fail(ctx context.Context, fill *chunkcache.Fill[key], err error) {
	if ctx.Err() == nil {
		f.source.path.failed.add(time.Now(), fill.Key())
	}
	fill.Fail(err)
}

// unpack brings samples of a compressed chunk that there is no room for in memory.
func (s *Source) unpack(ctx context.Context, x *fill) error {
	desc := s.index.Chunk(x.Chunk)
	work, leave, err := s.path.decoding.enter(ctx, desc.Length+desc.Stored)
	if err != nil {
		return err
	}
	defer leave()
	data := work[:desc.Length]
	a := []arrival{s.arrival(x.Chunk, data, work[desc.Length:])}
	if err := s.readChunks(ctx, a, s.path.cfg.PartSize, false); err != nil {
		return err
	}
	if err := s.arrived(ctx, &a[0]); err != nil {
		return err
	}
	for _, r := range x.Ranges {
		copy(x.segments[r.Seq], data[r.Offset:])
	}
	return nil
}
