package datapath

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
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
	return l.source.readRanges(ctx, l, plain)
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

// fail ends a fill with an error. It first notes the chunk in Path.failed, so that what looks ahead does not ask for it again
// at once. A load that all waiters have left says nothing of the store, and is not noted.
func (f *fetch) fail(ctx context.Context, fill *chunkcache.Fill[key], err error) {
	if ctx.Err() == nil {
		f.source.path.failed.Failed(fill.Key(), time.Now())
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

// arrival is one chunk on its way from the store. Where it is compressed its stored bytes come first, to memory of their own, and
// the chunk is decoded from there.
type arrival struct {
	number int
	desc   chunkindex.Chunk
	layout layout
	stored []byte // as they come
	data   []byte // the chunk; the same memory where nothing is compressed
	right  bool   // intact has found it to be what the index says
}

// beside returns how many bytes a chunk's load needs beside its own.
func beside(desc chunkindex.Chunk) int64 {
	if desc.Codec == codec.None {
		return 0
	}
	return desc.Stored
}

func (s *Source) arrival(chunk int, data, beside []byte) arrival {
	a := arrival{number: chunk, desc: s.index.Chunk(chunk), layout: s.layout(chunk), stored: data, data: data}
	if a.desc.Codec != codec.None {
		a.stored = beside
	}
	return a
}

// readChunks brings chunks, and notes which of them are right. Several of them lie side by side in one shard, and part bytes hold them.
// held is that of readStretches.
func (s *Source) readChunks(ctx context.Context, as []arrival, part int64, held bool) error {
	ps := make([]piece, 0, len(as))
	for i := range as {
		ps = as[i].layout.pieces(ps, 0, as[i].stored, nil, part, s.path.cfg.PartSize)
	}
	stretches := join(ps, part)
	if len(stretches) == 1 && len(ps) == len(as) && as[0].desc.Codec == codec.None {
		sums := newSums(stretches[0].into())
		if err := s.readStretches(sums.follow(ctx), stretches, held, func(*stretch) {}); err != nil {
			return err
		}
		for i, crc := range sums.finish() {
			as[i].right = s.intact(as[i].desc, as[i].data, crc)
		}
		return nil
	}
	if err := s.readStretches(ctx, stretches, held, func(*stretch) {}); err != nil {
		return err
	}
	for i := range as {
		a := &as[i]
		a.right = a.decode() && s.intact(a.desc, a.data, checksum(a.data))
	}
	return nil
}

// decode makes the chunk of its stored bytes, and reports whether they could be its.
func (a *arrival) decode() bool {
	return a.desc.Codec == codec.None || codec.Decode(a.desc.Codec, a.stored, a.desc.Skip, a.data) == nil
}

// intact verifies the checksum of a whole chunk, and its digest if CheckSHA is set.
func (s *Source) intact(desc chunkindex.Chunk, b []byte, crc uint32) bool {
	return crc == desc.CRC32C && (!s.path.cfg.CheckSHA || sha256.Sum256(b) == desc.Digest)
}

// arrived reads a chunk that is wrong once more, and returns an error if it still is. Reads that fail are repeated in s3backend,
// never here.
func (s *Source) arrived(ctx context.Context, a *arrival) error {
	if a.right {
		return nil
	}
	again := []arrival{*a}
	if err := s.readChunks(ctx, again, s.path.cfg.PartSize, false); err != nil {
		return err
	}
	if again[0].right {
		return nil
	}
	return s.rangeError(s.blame(ctx, a), chunkindex.ErrCorrupt)
}

// blame returns the extent of a chunk in which the first wrong sample begins.
func (s *Source) blame(ctx context.Context, a *arrival) chunkindex.Extent {
	if len(a.layout.exts) == 1 {
		return a.layout.exts[0]
	}
	if t, err := s.index.Table(ctx, a.number); err == nil {
		for i, at := range t.Offset {
			if checksum(a.data[at:at+t.Length[i]]) != t.CRC32C[i] {
				return a.layout.at(int64(at))
			}
		}
	}
	return a.layout.exts[0]
}
