package chunkindex

import (
	"cmp"
	"context"
	"slices"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// ranges returns the ranges of the blocks of chunks [from, to) of the segment, one range per section
// of blocks.
func (s *Segment) ranges(from, to int) (all []layout.Section) {
	for _, sec := range layout.BlockSections() {
		ctx := context.Background() // section 5 was read when the index was opened
		begin, _, err := s.placeOf(ctx, sec, from)
		last, length, err2 := s.placeOf(ctx, sec, to-1)
		if err == nil && err2 == nil { // an error is ignored here, because reading the block returns it
			all = append(all, layout.Section{Offset: s.head.Sections[sec].Offset + begin, Length: last + length - begin})
		}
	}
	return all
}

// CopyBlocks fetches the blocks of runs of chunks, each [from, to), into the local file in
// parallel. It does nothing if the local file already holds the whole index.
func (x *Index) CopyBlocks(ctx context.Context, runs [][2]int) error {
	var pieces []piece
	for _, r := range runs {
		for from := r[0]; from < r[1]; {
			s := x.segmentOf(from)
			end := min(r[1], s.chunk+int(s.head.Chunks))
			if !s.pages.complete {
				pieces = append(pieces, s.pages.pieces(s.ranges(from-s.chunk, end-s.chunk))...)
			}
			from = end
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int {
		return cmp.Or(cmp.Compare(a.of.name, b.of.name), cmp.Compare(a.at, b.at))
	})
	return copyPieces(ctx, slices.Compact(pieces))
}

// Prove compares every page of the stored segments with its digest, except pages that were already
// compared.
func (x *Index) Prove(ctx context.Context) error {
	var pieces []piece
	for i := range x.segments {
		pieces = append(pieces, x.segments[i].pages.unproved()...)
	}
	return provePieces(ctx, pieces)
}
