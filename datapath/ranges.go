package datapath

import (
	"hash/crc32"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/policy"
)

// piece is a range of one shard, all or part of a portion, with the memory for its bytes.
type piece struct {
	ext chunkindex.Extent
	dst []byte
	of  *portion
	crc uint32 // checksum of the bytes received so far
}

// layout maps the stored bytes of a chunk to its extents. These are many objects, one range of a
// shard, or several ranges if columns are left out. All code that depends on the number of extents
// is here.
type layout struct {
	exts []chunkindex.Extent
	ends []int64 // end offsets of the extents in the chunk's stored bytes; nil: there is only one extent
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

// from returns the extent that contains an offset in the chunk's stored bytes, and the offset
// within that extent.
func (l layout) from(offset int64) (i int, rest int64) {
	i = sort.Search(len(l.ends), func(i int) bool { return l.ends[i] > offset })
	if i > 0 {
		offset -= l.ends[i-1]
	}
	return i, offset
}

// at returns the extent that contains an offset in the chunk's stored bytes, or the last extent for
// larger offsets.
func (l layout) at(offset int64) chunkindex.Extent {
	i, _ := l.from(offset)
	return l.exts[min(i, len(l.exts)-1)]
}

// pieces appends the pieces of a portion to ps. Each has about part bytes, at most 1.5 times part,
// and never more than most.
func (l layout) pieces(ps []piece, of *portion, part, most int64) []piece {
	i, offset := l.from(of.offset)
	dst := of.stored
	for ; len(dst) > 0 && i < len(l.exts); i++ {
		e := l.exts[i]
		length := min(e.Length-offset, int64(len(dst)))
		n := policy.Parts(length, part, most)
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

// stretch is the range of one store read: pieces of one shard, and the gaps between them.
type stretch struct {
	pieces  []piece
	end     int64
	wanted  int64
	waste   int64
	gaps    []byte // memory for the gaps; may be too small for all
	seen    int64  // number of bytes included in the checksums of the pieces
	next    int    // index of the first piece whose checksum is incomplete
	checked int    // index of the first piece that checkFilled has not seen
}

func (r *stretch) ext() chunkindex.Extent {
	first := r.pieces[0].ext
	return chunkindex.Extent{Shard: first.Shard, Offset: first.Offset, Length: r.end - first.Offset}
}

// join merges pieces that are close to each other into stretches of at most most bytes. The gaps
// between the pieces are read into spare memory.
func join(ps []piece, most int64, spare []byte) []stretch {
	var stretches []stretch
	from := 0 // index of the first piece of the last stretch
	for i, p := range ps {
		if i > 0 {
			r := &stretches[len(stretches)-1]
			gap := p.ext.Offset - r.end
			if r.pieces[0].ext.Shard == p.ext.Shard && policy.Joins(r.wanted, r.waste, gap, p.ext.Length, most) {
				r.pieces = ps[from : i+1 : i+1]
				r.end, r.wanted, r.waste = p.ext.Offset+p.ext.Length, r.wanted+p.ext.Length, r.waste+gap
				continue
			}
		}
		from = i
		stretches = append(stretches, stretch{pieces: ps[i : i+1 : i+1], end: p.ext.Offset + p.ext.Length, wanted: p.ext.Length})
	}
	for i := range stretches {
		n := min(stretches[i].waste, int64(len(spare)))
		stretches[i].gaps, spare = spare[:n:n], spare[n:]
	}
	return stretches
}

// filled updates the checksums of the pieces after n bytes of the stretch have arrived, while the
// bytes are still in the processor's cache. Reading them from memory again takes a tenth of a cold
// epoch.
func (r *stretch) filled(n int64) {
	for ; r.next < len(r.pieces); r.next++ {
		p := &r.pieces[r.next]
		start := p.ext.Offset - r.pieces[0].ext.Offset
		if from, to := max(r.seen-start, 0), min(n-start, int64(len(p.dst))); from < to {
			p.crc = crc32.Update(p.crc, castagnoli(), p.dst[from:to])
		}
		if n < start+int64(len(p.dst)) {
			break
		}
	}
	r.seen = n
}

// into lists the memory that a stretch is read into. Gaps without memory of their own share a
// buffer that is discarded.
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
