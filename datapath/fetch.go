package datapath

import (
	"context"
	"crypto/sha256"
	"hash/crc32"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkcache"
	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// group joins chunks that lie side by side in one shard into lists that one store read
// brings, up to half a part: two reads of that length side by side are sooner there than one
// of both. The chunks are in ascending order.
func (s *Source) group(chunks []int) [][]int {
	var groups [][]int
	var end, size int64
	shard := -1
	for i, c := range chunks {
		ext := s.index.Extents(c)
		if len(ext) != 1 {
			groups, shard = append(groups, []int{i}), -1
			continue
		}
		e := ext[0]
		if e.Shard == shard && e.Offset == end && size+e.Length <= s.path.cfg.PartSize/2 {
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
			size += e.Length
		} else {
			groups, size = append(groups, []int{i}), e.Length
		}
		shard, end = e.Shard, e.Offset+e.Length
	}
	return groups
}

// loader returns the function that brings groups of the chunks listed. held says that the
// caller holds a place of the gate already, for reads made ahead.
func (s *Source) loader(chunks []int, held bool) func(context.Context, []*chunkcache.Fill[digest]) error {
	return func(ctx context.Context, fills []*chunkcache.Fill[digest]) error {
		bufs := make([][]byte, len(fills))
		for i, f := range fills {
			bufs[i] = f.Bytes()
		}
		first := chunks[fills[0].Index]
		if len(s.index.Extents(first)) == 1 && (len(fills) > 1 || int64(len(bufs[0])) <= s.path.cfg.PartSize) {
			if err := s.read(ctx, s.index.Extents(first)[0], held, bufs...); err != nil {
				for _, f := range fills {
					f.Fail(s.rangeError(s.index.Extents(chunks[f.Index])[0], err))
				}
				return err
			}
		} else if err := s.readParts(ctx, first, bufs[0]); err != nil {
			return err
		}
		for i, f := range fills {
			if err := s.arrived(ctx, chunks[f.Index], bufs[i]); err != nil {
				f.Fail(err)
				continue
			}
			f.Publish()
		}
		return nil
	}
}

// arrived compares a chunk with its digests. Wrong bytes are asked for once more.
func (s *Source) arrived(ctx context.Context, chunk int, b []byte) error {
	if s.intact(chunk, b) {
		return nil
	}
	if err := s.readParts(ctx, chunk, b); err != nil {
		return err
	}
	if s.intact(chunk, b) {
		return nil
	}
	return s.rangeError(s.index.Extents(chunk)[0], chunkindex.ErrCorrupt)
}

func (s *Source) intact(chunk int, b []byte) bool {
	c := s.index.Chunk(chunk)
	return checksum(b) == c.CRC32C && (!s.path.cfg.CheckSHA || sha256.Sum256(b) == c.Digest)
}

// readParts reads one chunk, in parts side by side where it is larger than one read.
func (s *Source) readParts(ctx context.Context, chunk int, b []byte) error {
	g, ctx := errgroup.WithContext(ctx)
	var done int64
	for _, e := range s.index.Extents(chunk) {
		for off := int64(0); off < e.Length; off += s.path.cfg.PartSize {
			n := min(s.path.cfg.PartSize, e.Length-off)
			part := chunkindex.Extent{Shard: e.Shard, Offset: e.Offset + off, Length: n}
			dst := b[done : done+n]
			done += n
			g.Go(func() error {
				if err := s.read(ctx, part, false, dst); err != nil {
					return s.rangeError(part, err)
				}
				return nil
			})
		}
	}
	return g.Wait()
}

// read is one store read, from where ext begins, for all bytes of dst.
func (s *Source) read(ctx context.Context, ext chunkindex.Extent, held bool, dst ...[]byte) error {
	var n int
	for _, d := range dst {
		n += len(d)
	}
	if n == 0 {
		return nil
	}
	if !held {
		if err := s.path.gate.enter(ctx); err != nil {
			return err
		}
		defer s.path.gate.leave()
	}
	shard := s.index.Shard(ext.Shard)
	ref := objstore.Ref{Key: s.prefix + shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
	s.path.storeReads.Add(1)
	if err := s.store.ReadRange(ctx, ref, ext.Offset, dst...); err != nil {
		return err
	}
	s.path.storeBytes.Add(uint64(n))
	return nil
}

func (s *Source) rangeError(ext chunkindex.Extent, err error) error {
	return &chunkindex.RangeError{
		Shard: ext.Shard, Key: s.index.Shard(ext.Shard).Key,
		Offset: ext.Offset, Length: ext.Length, Err: err,
	}
}
