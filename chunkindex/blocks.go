package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// ranges says where the index has the blocks of chunks, from one to before another, in each section of blocks.
func (x *Index) ranges(from, to int) (all []layout.Section) {
	if from == to {
		return nil
	}
	for _, sec := range layout.BlockSections() {
		ctx := context.Background() // section 6 was read when the index was opened
		begin, _, err := x.placeOf(ctx, sec, from)
		last, length, err2 := x.placeOf(ctx, sec, to-1)
		if err == nil && err2 == nil { // else a read of the block says what is wrong
			all = append(all, layout.Section{Offset: x.head.Sections[sec].Offset + begin, Length: last + length - begin})
		}
	}
	return all
}

// CopyBlocks copies the blocks of runs of chunks, each from one to before another, to the local file, in parallel.
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

// ReleaseBlocks frees the space of the blocks of chunks, from one to before another, in the local file: nothing reads them any more.
func (x *Index) ReleaseBlocks(from, to int) {
	for _, r := range x.ranges(from, to) {
		x.pages.release(r)
	}
}

// Prove compares all of the stored index with its digests, except what was compared when it was read.
func (x *Index) Prove(ctx context.Context) error { return x.pages.proveRest(ctx) }
