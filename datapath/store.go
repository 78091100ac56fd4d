package datapath

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// store is the last tier, which reads from the store.
type store struct{}

// Load reads whole chunks, or separate samples, from the store.
func (store) Load(ctx context.Context, l *load, fills []*fill) error {
	if err := context.Cause(ctx); err != nil { // canceled while another tier was tried
		return err
	}
	if fills[0].whole != nil {
		return l.chunks(ctx, fills)
	}
	var plain []*fill
	for _, x := range fills {
		l.came.store += bytesOf(x.ChunkRanges)
		if l.source.index.Codec(x.Chunk) == codec.None {
			plain = append(plain, x)
		} else if err := l.source.unpack(ctx, x); err != nil {
			return err
		}
	}
	return l.source.readEach(ctx, l.source.samples(l, plain), l.source.path.cfg.PartSize, l.spare)
}

// chunks reads whole chunks that are adjacent in one shard.
func (l *load) chunks(ctx context.Context, fills []*fill) error {
	s := l.source
	wholes := make([]*portion, len(fills))
	for i, x := range fills {
		wholes[i] = s.whole(x.Chunk, x.whole.Bytes(), x.whole.Extra())
		wholes[i].receiver = chunkFill{x.whole, s.path}
		if l.held == s.path.gate {
			wholes[i].gates = nil
		}
	}
	return s.readEach(ctx, wholes, l.part, nil)
}

// chunkFill is the receiver of a whole chunk.
type chunkFill struct {
	*chunkcache.Fill[key]
	path *Path
}

// Fail ends the fill with an error. It first records the chunk in Path.failed, so that prefetch
// does not retry it at once. It does not record a load that was canceled because all waiters have
// left.
func (f chunkFill) Fail(err error) {
	if !errors.Is(err, context.Canceled) {
		f.path.failed.Failed(f.Key(), time.Now())
	}
	f.Fill.Fail(err)
}

// unpack reads samples of a compressed chunk for which there is no room in memory.
func (s *Source) unpack(ctx context.Context, x *fill) error {
	desc := s.index.Chunk(x.Chunk)
	work, leave, err := s.path.decoding.enter(ctx, desc.Length+extra(desc))
	if err != nil {
		return err
	}
	defer leave()
	p := s.whole(x.Chunk, work[:desc.Length], work[desc.Length:])
	if err := s.read(ctx, []*portion{p}, s.path.cfg.PartSize, nil); err != nil {
		return err
	}
	if !p.right {
		return s.corrupt(ctx, p)
	}
	for _, r := range x.Ranges {
		x.samples[r.Seq].take(p.data[r.Offset:])
	}
	return nil
}

// extra returns the number of bytes that a load of a chunk needs in addition to the chunk's own
// memory: a compressed chunk is decoded from there.
func extra(desc chunkindex.Chunk) int64 {
	return desc.Codec.Workspace(desc.Stored, desc.Length)
}

// intact verifies the checksum of a whole chunk, and its digest if CheckSHA is set.
func (s *Source) intact(desc chunkindex.Chunk, b []byte, crc uint32) bool {
	return crc == desc.CRC32C && (!s.path.cfg.CheckSHA || sha256.Sum256(b) == desc.Digest)
}

// corrupt returns the error of a portion that was wrong twice. It names the extent in which the
// portion begins. For a chunk of many objects it names the extent of the first wrong sample.
func (s *Source) corrupt(ctx context.Context, p *portion) error {
	at := p.offset
	if p.whole && len(p.layout.exts) > 1 && s.index.Codec(p.chunk) == codec.None {
		if t, err := s.index.Table(ctx, p.chunk); err == nil {
			for i := range t.Len() {
				offset := t.Offset(i)
				if checksum(p.data[offset:offset+t.Length(i)]) != t.CRC32C(i) {
					at = int64(offset)
					break
				}
			}
		}
		return s.rangeError(p.layout.at(at), chunkindex.ErrCorrupt)
	}
	i, rest := p.layout.from(at)
	e := p.layout.exts[i]
	e.Offset, e.Length = e.Offset+rest, min(e.Length-rest, int64(len(p.stored)))
	return s.rangeError(e, chunkindex.ErrCorrupt)
}
