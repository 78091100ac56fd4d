package datapath

import (
	"context"
	"errors"
	"sort"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
)

// gapLimit is the longest gap, in bytes, between two pieces that one store read brings. At most one in nine of a
// read's bytes is of gaps, so a batch read by ranges never moves more than 1.13 times its own bytes.
const gapLimit = 64 << 10

// piece is a range of one shard, and the memory that its bytes go to.
type piece struct {
	ext chunkindex.Extent
	dst []byte
	of  *sample // the sample that the piece belongs to; nil: it belongs to a chunk
}

// layout says where the stored bytes of a chunk lie: of many objects, or of one range of a shard. It is the only place
// where it matters how many there are.
type layout struct {
	exts []chunkindex.Extent
	ends []int64 // of the extents, in the chunk's stored bytes; nil: there is one
}

func (s *Source) layout(chunk int) layout {
	l := layout{exts: s.index.Extents(chunk)}
	if len(l.exts) == 1 {
		return l
	}
	var end int64
	l.ends = make([]int64, len(l.exts))
	for i, e := range l.exts {
		end += e.Length
		l.ends[i] = end
	}
	return l
}

// from returns which extent holds an offset in the chunk's stored bytes, and where in that it lies.
func (l layout) from(offset int64) (i int, rest int64) {
	i = sort.Search(len(l.ends), func(i int) bool { return l.ends[i] > offset })
	if i > 0 {
		offset -= l.ends[i-1]
	}
	return i, offset
}

// at returns the extent that holds an offset in the chunk's stored bytes, the last one where none does.
func (l layout) at(offset int64) chunkindex.Extent {
	i, _ := l.from(offset)
	return l.exts[min(i, len(l.exts)-1)]
}

// pieces adds what brings the stored bytes from an offset on into dst, in pieces of about part bytes, never more than half as much again
// and never more than most.
func (l layout) pieces(ps []piece, offset int64, dst []byte, of *sample, part, most int64) []piece {
	i, offset := l.from(offset)
	for ; len(dst) > 0 && i < len(l.exts); i++ {
		e := l.exts[i]
		length := min(e.Length-offset, int64(len(dst)))
		n := max((length+part/2)/part, (length+most-1)/most, 1)
		for k := range n {
			from, to := length*k/n, length*(k+1)/n
			ps = append(ps, piece{
				ext: chunkindex.Extent{Shard: e.Shard, Offset: e.Offset + offset + from, Length: to - from},
				dst: dst[from:to:to], of: of,
			})
		}
		dst, offset = dst[length:], 0
	}
	return ps
}

// stretch is what one store read brings: pieces of one shard, and the gaps between them.
type stretch struct {
	pieces []piece
	end    int64
	wanted int64
	waste  int64
	gaps   []byte // memory for the gaps, as far as it reaches
}

func (r *stretch) ext() chunkindex.Extent {
	first := r.pieces[0].ext
	return chunkindex.Extent{Shard: first.Shard, Offset: first.Offset, Length: r.end - first.Offset}
}

// join puts pieces that follow each other closely into stretches of at most most bytes.
func join(ps []piece, most int64) []stretch {
	var stretches []stretch
	from := 0 // the first piece of the last stretch
	for i, p := range ps {
		if i > 0 {
			r := &stretches[len(stretches)-1]
			gap := p.ext.Offset - r.end
			if r.pieces[0].ext.Shard == p.ext.Shard && gap >= 0 && gap <= gapLimit &&
				r.waste+gap <= (r.wanted+p.ext.Length)/8 &&
				r.wanted+r.waste+gap+p.ext.Length <= most {
				r.pieces = ps[from : i+1 : i+1]
				r.end, r.wanted, r.waste = p.ext.Offset+p.ext.Length, r.wanted+p.ext.Length, r.waste+gap
				continue
			}
		}
		from = i
		stretches = append(stretches, stretch{pieces: ps[i : i+1 : i+1], end: p.ext.Offset + p.ext.Length, wanted: p.ext.Length})
	}
	return stretches
}

// into lists the memory that a stretch fills. Gaps without memory of their own share some that is dropped.
func (r *stretch) into() [][]byte {
	dst := make([][]byte, 0, len(r.pieces)+min(int(r.waste), len(r.pieces)-1))
	var dropped []byte
	at, gaps := r.pieces[0].ext.Offset, r.gaps
	for _, p := range r.pieces {
		switch gap := p.ext.Offset - at; {
		case gap == 0:
		case gap <= int64(len(gaps)):
			dst, gaps = append(dst, gaps[:gap]), gaps[gap:]
		default:
			if int64(len(dropped)) < gap {
				dropped = make([]byte, gap)
			}
			dst = append(dst, dropped[:gap])
		}
		dst = append(dst, p.dst)
		at = p.ext.Offset + p.ext.Length
	}
	return dst
}

// readStretches makes one store read for each stretch, side by side. It calls ended after each read that succeeds, perhaps from
// several goroutines at once. held says that the caller holds a place of the gate, for a chunk fetched ahead: the reads share
// that place, and take others only if they are free.
func (s *Source) readStretches(ctx context.Context, stretches []stretch, held bool, ended func(*stretch)) (err error) {
	if len(stretches) == 1 {
		return s.readStretch(ctx, &stretches[0], held, ended)
	}
	places := s.path.gate.places()
	if held {
		most := places
		for places = 1; places < len(stretches) && s.path.gate.enterAhead(most); {
			places++
		}
		defer func() {
			for range places - 1 {
				s.path.gate.leaveAhead(err != nil)
			}
		}()
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(places)
	for i := range stretches {
		g.Go(func() error { return s.readStretch(ctx, &stretches[i], held, ended) })
	}
	return g.Wait()
}

func (s *Source) readStretch(ctx context.Context, r *stretch, held bool, ended func(*stretch)) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if of := r.pieces[0].of; of != nil {
		if of.lone {
			if err := s.path.lone.enter(ctx); err != nil {
				return err
			}
			defer s.path.lone.leave()
		}
		if of.passes {
			if err := s.path.first.enter(ctx); err != nil {
				return err
			}
			defer s.path.first.leave()
			held = true
		}
		s.path.rangeReads.Add(1)
	}
	if err := s.read(ctx, r.ext(), held, r.into()...); err != nil {
		if cause := context.Cause(ctx); cause != nil { // it was its reader who ended it
			return cause
		}
		return s.rangeError(r.ext(), err)
	}
	ended(r)
	return nil
}

// read is one store read, from where ext begins, for all bytes of dst, of the version of the shard that the index is bound to.
func (s *Source) read(ctx context.Context, ext chunkindex.Extent, held bool, dst ...[]byte) error {
	if !held {
		if err := s.path.gate.enter(ctx); err != nil {
			return err
		}
		defer s.path.gate.leave()
	}
	shard := s.index.Shard(ext.Shard)
	ref := objstore.Ref{Key: s.prefix + shard.Key, ETag: shard.ETag, VersionID: shard.VersionID}
	s.path.storeReads.Add(1)
	err := s.path.rates.timed(ctx, int(ext.Length), func(ctx context.Context) error { return s.store.ReadRange(ctx, ref, ext.Offset, dst...) })
	if errors.Is(err, objstore.ErrThrottled) || errors.Is(err, objstore.ErrTimeout) {
		s.path.gate.slower()
	}
	if err != nil {
		return err
	}
	s.path.storeBytes.Add(uint64(ext.Length))
	return nil
}

func (s *Source) rangeError(ext chunkindex.Extent, err error) error {
	return &chunkindex.RangeError{
		Shard: ext.Shard, Key: s.index.Shard(ext.Shard).Key,
		Offset: ext.Offset, Length: ext.Length, Err: err,
	}
}
