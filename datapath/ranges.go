package datapath

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
)

// gapLimit is the longest run of unwanted bytes that a read of near samples carries along; of
// a read's bytes at most one in nine is unwanted, so that a batch read by ranges never
// moves more than 1.13 times its own bytes.
const gapLimit = 64 << 10

// piece is one sample to read.
type piece struct {
	ext chunkindex.Extent
	crc uint32
	dst []byte
}

// run is a list of samples that one store read brings.
type run struct {
	pieces []piece
	end    int64
	wanted int64
	waste  int64
}

// readRanges reads samples by themselves into their segments, near ones joined, and what lies between
// them into spare, as far as that reaches.
func (s *Source) readRanges(ctx context.Context, b *batch, which []int, segments [][]byte, spare []byte) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.path.cfg.Fetchers)
	pieces, again := distinct(s.pieces(b, which, segments))
	for _, r := range s.join(pieces) {
		n := min(r.waste, int64(len(spare)))
		gaps := spare[:n:n]
		spare = spare[n:]
		g.Go(func() error { return s.readRun(ctx, r, gaps) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, t := range again {
		copy(t.dst, t.src)
	}
	return nil
}

// twin is a sample that a batch holds once more.
type twin struct{ dst, src []byte }

// distinct leaves one piece of each sample among pieces in stored order, and lists the others.
func distinct(ps []piece) (once []piece, again []twin) {
	once = ps[:0]
	for _, p := range ps {
		if n := len(once); n > 0 && once[n-1].ext == p.ext {
			again = append(again, twin{p.dst, once[n-1].dst})
		} else {
			once = append(once, p)
		}
	}
	return once, again
}

// pieces lists the samples in stored order.
func (s *Source) pieces(b *batch, which []int, segments [][]byte) []piece {
	var ps []piece
	for _, i := range which {
		c := b.chunks[i]
		for _, r := range c.Ranges {
			if r.Length > 0 {
				ps = append(ps, piece{s.extent(c.Chunk, r), r.CRC32C, segments[r.Seq]})
			}
		}
	}
	slices.SortFunc(ps, func(a, b piece) int {
		return cmp.Or(a.ext.Shard-b.ext.Shard, cmp.Compare(a.ext.Offset, b.ext.Offset))
	})
	return ps
}

// join makes runs of samples that lie near each other.
func (s *Source) join(ps []piece) []run {
	var runs []run
	for _, p := range ps {
		if n := len(runs); n > 0 {
			r := &runs[n-1]
			gap := p.ext.Offset - r.end
			if r.pieces[0].ext.Shard == p.ext.Shard && gap >= 0 && gap <= gapLimit &&
				r.waste+gap <= (r.wanted+p.ext.Length)/8 &&
				r.wanted+r.waste+gap+p.ext.Length <= s.path.cfg.PartSize {
				r.pieces = append(r.pieces, p)
				r.end, r.wanted, r.waste = p.ext.Offset+p.ext.Length, r.wanted+p.ext.Length, r.waste+gap
				continue
			}
		}
		runs = append(runs, run{pieces: []piece{p}, end: p.ext.Offset + p.ext.Length, wanted: p.ext.Length})
	}
	return runs
}

// readRun brings one run and checks each sample. Wrong bytes are asked for once more.
func (s *Source) readRun(ctx context.Context, r run, spare []byte) error {
	first := r.pieces[0].ext
	ext := chunkindex.Extent{Shard: first.Shard, Offset: first.Offset, Length: r.end - first.Offset}
	dst := make([][]byte, 0, 2*len(r.pieces))
	at := first.Offset
	for _, p := range r.pieces {
		if gap := p.ext.Offset - at; gap > int64(len(spare)) {
			dst = append(dst, make([]byte, gap))
		} else if gap > 0 {
			dst = append(dst, spare[:gap])
			spare = spare[gap:]
		}
		dst = append(dst, p.dst)
		at = p.ext.Offset + p.ext.Length
	}
	var bad chunkindex.Extent
	for range 2 {
		s.path.rangeReads.Add(1)
		if err := s.read(ctx, ext, false, dst...); err != nil {
			return s.failed(ctx, ext, err)
		}
		s.path.rangeBytes.Add(uint64(ext.Length))
		bad = chunkindex.Extent{}
		for _, p := range r.pieces {
			if checksum(p.dst) != p.crc {
				bad = p.ext
				break
			}
		}
		if bad.Length == 0 {
			return nil
		}
	}
	return s.rangeError(bad, chunkindex.ErrCorrupt)
}

// failed says where a read went wrong, unless it was its reader who ended it.
func (s *Source) failed(ctx context.Context, ext chunkindex.Extent, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return s.rangeError(ext, err)
}
