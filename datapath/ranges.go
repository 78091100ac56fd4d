package datapath

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/chunkindex"
)

// sample is one sample that is read by itself, of as many pieces as the extents that it lies in.
type sample struct {
	chunk  int
	layout layout
	offset int64
	crc    uint32
	dst    []byte
	lone   bool         // it is an object, or of some, and comes with its chunk too
	passes bool         // its batch is a reader's first one, and does not wait for whole chunks
	left   atomic.Int32 // pieces that have not come yet
}

// readRanges reads samples by themselves into their segments, near ones joined, and what lies between
// them into the load's spare memory, as far as that reaches. Wrong ones are asked for once more.
func (s *Source) readRanges(ctx context.Context, l *load, fills []*fill) error {
	samples, again := s.samples(l, fills)
	for range 2 {
		if len(samples) == 0 {
			break
		}
		var err error
		if samples, err = s.readSamples(ctx, l, samples); err != nil {
			return err
		}
	}
	if len(samples) > 0 {
		first := samples[0]
		ext := first.layout.pieces(nil, first.offset, first.dst, nil, s.path.cfg.PartSize, s.path.cfg.PartSize)[0].ext
		return s.rangeError(ext, chunkindex.ErrCorrupt)
	}
	for _, t := range again {
		copy(t.dst, t.src)
	}
	return nil
}

// twin is a sample that a batch holds once more.
type twin struct{ dst, src []byte }

// samples lists each sample once, in stored order, and those that a batch holds once more.
func (s *Source) samples(of *load, fills []*fill) (once []*sample, again []twin) {
	n := 0
	for _, x := range fills {
		n += len(x.Ranges)
	}
	all, once := make([]sample, 0, n), make([]*sample, 0, n)
	for _, c := range fills {
		l := s.layout(c.Chunk)
		lone := len(l.exts) > 1 && s.path.readers.Expected(s, c.Chunk)
		for _, r := range c.Ranges {
			if r.Length > 0 {
				all = all[:len(all)+1]
				p := &all[len(all)-1]
				p.chunk, p.layout, p.lone, p.passes, p.offset, p.crc, p.dst = c.Chunk, l, lone, of.passes, int64(r.Offset), r.CRC32C, c.segments[r.Seq]
				once = append(once, p)
			}
		}
	}
	slices.SortFunc(once, func(a, b *sample) int {
		return cmp.Or(a.chunk-b.chunk, cmp.Compare(a.offset, b.offset), len(a.dst)-len(b.dst))
	})
	kept := once[:0]
	for _, p := range once {
		if k := len(kept); k > 0 && kept[k-1].chunk == p.chunk && kept[k-1].offset == p.offset && len(kept[k-1].dst) == len(p.dst) {
			again = append(again, twin{p.dst, kept[k-1].dst})
		} else {
			kept = append(kept, p)
		}
	}
	return kept, again
}

// readSamples reads samples, and returns those that are wrong.
func (s *Source) readSamples(ctx context.Context, l *load, samples []*sample) (wrong []*sample, err error) {
	most, spare := s.path.cfg.PartSize, l.spare
	ps := make([]piece, 0, len(samples))
	for _, p := range samples {
		n := len(ps)
		ps = p.layout.pieces(ps, p.offset, p.dst, p, most, most)
		p.left.Store(int32(len(ps) - n))
	}
	stretches := join(ps, most)
	for i := range stretches {
		n := min(stretches[i].waste, int64(len(spare)))
		stretches[i].gaps, spare = spare[:n:n], spare[n:]
	}
	var mu sync.Mutex // guards wrong
	err = s.readStretches(ctx, stretches, false, func(r *stretch) {
		s.path.rangeBytes.Add(uint64(r.ext().Length))
		for _, p := range r.pieces {
			if p.of.left.Add(-1) == 0 && checksum(p.of.dst) != p.of.crc {
				mu.Lock()
				wrong = append(wrong, p.of)
				mu.Unlock()
			}
		}
	})
	return wrong, err
}
