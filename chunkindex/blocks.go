package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// ranges returns the file ranges of the blocks of chunks [from, to), one range per section of
// blocks.
func (x *Index) ranges(from, to int) (all []layout.Section) {
	if from == to {
		return nil
	}
	for _, sec := range layout.BlockSections() {
		ctx := context.Background() // section 6 was read when the index was opened
		begin, _, err := x.placeOf(ctx, sec, from)
		last, length, err2 := x.placeOf(ctx, sec, to-1)
		if err == nil && err2 == nil { // an error is ignored here, because reading the block returns it
			all = append(all, layout.Section{Offset: x.head.Sections[sec].Offset + begin, Length: last + length - begin})
		}
	}
	return all
}

// CopyBlocks fetches the blocks of runs of chunks, each [from, to), into the local file in
// parallel. It does nothing if the local file already holds the whole index.
func (x *Index) CopyBlocks(ctx context.Context, runs [][2]int) error {
	if !x.InPart() {
		return nil
	}
	var all []layout.Section
	for _, r := range runs {
		all = append(all, x.ranges(r[0], r[1])...)
	}
	return x.pages.copy(ctx, all)
}

// ReleaseBlocks frees the local file's space for the blocks of chunks [from, to). The caller must
// not read these blocks again.
func (x *Index) ReleaseBlocks(from, to int) {
	for _, r := range x.ranges(from, to) {
		x.pages.release(r)
	}
}

// Prove compares every page of the stored index with its digest, except pages that were already
// compared.
func (x *Index) Prove(ctx context.Context) error { return x.pages.proveRest(ctx) }
