package selection

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Step is one step of a cut. Of the samples that remain after the preceding step, it keeps either
// one subset of a rule, or the samples at some positions.
type Step struct {
	Rule Rule
	Name string // name of the subset to keep

	Places []Places // in ascending order; set only for a step without a rule
}

// Places is a range of positions, both ends included. A position is a number in stored order among
// the samples that remain after the preceding step.
type Places struct{ First, Last uint64 }

// Keys provides the sample names for a cut. *chunkindex.Index implements it.
type Keys interface {
	Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error
}

// Base is the subset from which a cut starts. *Subset implements it.
type Base interface {
	Bitmap(ctx context.Context, chunk int) ([]byte, error)
}

// Cut is a subset that is computed on demand and not stored. It contains the samples that Split
// would put into the subset of the same rule. It is immutable and safe for concurrent use.
type Cut struct {
	first   []uint64
	members []uint64 // prefix sums
	mixed   []byte   // bitmaps of the chunks that the cut contains in part
	at      []int64  // start of each chunk's bitmap in mixed, also for chunks without a bitmap
}

// MostHashed limits the number of sample names that one cut hashes: about 15 seconds of CPU time.
const MostHashed = 1 << 26

// CutBytes returns the maximum memory of a cut of a dataset. first contains the prefix sums of the
// chunks' sample counts. If ranges of positions in the whole dataset define the cut, it contains at
// most the chunks at the ends of these ranges in part. runs is the number of these ranges, or -1
// for other cuts.
func CutBytes(first []uint64, runs int) int64 {
	var all, largest int64
	for i := range len(first) - 1 {
		n := bitmapSize(chunkSize(first, i))
		all, largest = all+n, max(largest, n)
	}
	if runs >= 0 {
		all = min(all, 2*int64(runs)*largest)
	}
	return 8<<10 + 16*int64(len(first)) + 2*all // a growing slice has at most twice the needed capacity
}

// NewCut computes the samples of a dataset that remain after some steps. first contains the prefix
// sums of the chunks' sample counts; the cut shares the slice and does not modify it. base is nil
// for all samples.
func NewCut(ctx context.Context, keys Keys, first []uint64, base Base, steps []Step) (*Cut, error) {
	w, err := newCutter(keys, first, base, steps)
	if err != nil {
		return nil, fmt.Errorf("cut: %w", err)
	}
	c := &Cut{first: first, members: make([]uint64, len(first)), at: make([]int64, len(first))}
	for i := range len(first) - 1 {
		bitmap, n, err := w.chunk(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("cut: chunk %d: %w", i, err)
		}
		if n > 0 && n < chunkSize(first, i) {
			c.mixed = append(c.mixed, bitmap...)
		}
		c.members[i+1], c.at[i+1] = c.members[i]+n, int64(len(c.mixed))
	}
	c.mixed = slices.Clip(c.mixed)
	return c, nil
}

// Members returns the prefix sums of the cut's samples by chunk. Do not modify them.
func (c *Cut) Members() []uint64 { return c.members }

// Bitmap returns the cut's samples in a chunk: one bit per sample, lowest bit of a byte first.
func (c *Cut) Bitmap(ctx context.Context, chunk int) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if chunk < 0 || chunk >= len(c.first)-1 {
		return nil, fmt.Errorf("cut: no chunk %d: there are %d chunks", chunk, len(c.first)-1)
	}
	if from, to := c.at[chunk], c.at[chunk+1]; from < to {
		return c.mixed[from:to:to], nil
	}
	n := chunkSize(c.first, chunk)
	if c.members[chunk+1] == c.members[chunk] {
		return make([]byte, bitmapSize(n)), nil
	}
	return ones(n), nil
}

// Bytes returns the memory size of the cut.
func (c *Cut) Bytes() int64 { return 8<<10 + 16*int64(len(c.first)) + int64(cap(c.mixed)) }

// Close does nothing.
func (c *Cut) Close() error { return nil }

// ones returns the bitmap of a chunk with all its n samples.
func ones(n uint64) []byte {
	b := make([]byte, bitmapSize(n))
	for i := range b {
		b[i] = 0xff
	}
	if n%8 != 0 {
		b[len(b)-1] = 1<<(n%8) - 1
	}
	return b
}

// cutter computes a cut. It processes the chunks of a dataset in order.
type cutter struct {
	keys   Keys
	first  []uint64
	base   Base
	steps  []Step
	hashes []*sorter // one per step with a rule
	parts  []int
	passed []uint64 // number of samples that reached each step
	hashed uint64   // samples whose names were read
}

func newCutter(keys Keys, first []uint64, base Base, steps []Step) (*cutter, error) {
	w := &cutter{
		keys: keys, first: first, base: base, steps: steps, hashes: make([]*sorter, len(steps)), parts: make([]int, len(steps)),
		passed: make([]uint64, len(steps)),
	}
	for i, s := range steps {
		if len(s.Rule.Parts) == 0 {
			continue
		}
		if err := s.Rule.Check(); err != nil {
			return nil, err
		}
		if s.Rule.ByShard() {
			return nil, invalid("a split by patterns of shards cannot be written in a request: store the split with millrace subset")
		}
		w.hashes[i] = newSorter(s.Rule)
		if w.parts[i] = s.Rule.number(s.Name); w.parts[i] < 0 {
			return nil, fmt.Errorf("%w %s: the split is %s", ErrNoSubset, s.Name, s.Rule)
		}
	}
	return w, nil
}

// chunk returns the bitmap and number of the remaining samples of a chunk.
func (w *cutter) chunk(ctx context.Context, chunk int) (bitmap []byte, n uint64, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	if w.over() {
		return nil, 0, nil
	}
	if bitmap = ones(chunkSize(w.first, chunk)); w.base != nil {
		b, err := w.base.Bitmap(ctx, chunk)
		if err != nil {
			return nil, 0, err
		}
		copy(bitmap, b)
	}
	n = count(bitmap)
	for i, s := range w.steps {
		came := w.passed[i]
		w.passed[i] += n
		switch {
		case n == 0:
		case w.hashes[i] != nil:
			err = w.hash(ctx, chunk, i, bitmap)
		case !within(s.Places, came, n):
			keepPlaces(bitmap, s.Places, came)
		}
		if err != nil {
			return nil, 0, err
		}
		n = count(bitmap)
	}
	return bitmap, n, nil
}

// over reports whether no later chunk can have remaining samples, because a step has passed its
// last position.
func (w *cutter) over() bool {
	for i, s := range w.steps {
		if n := len(s.Places); n > 0 && w.passed[i] > s.Places[n-1].Last {
			return true
		}
	}
	return false
}

// hash removes from a bitmap the samples that the rule of a step assigns to other subsets.
func (w *cutter) hash(ctx context.Context, chunk, step int, bitmap []byte) error {
	n := chunkSize(w.first, chunk)
	if w.hashed += n; w.hashed > MostHashed {
		return invalid("the split requires hashing the names of more than %d samples: store it with millrace subset", MostHashed)
	}
	at, h, part := uint64(0), w.hashes[step], w.parts[step]
	err := w.keys.Keys(ctx, chunk, func(_ uint64, key []byte) {
		if at < n && bitmap[at/8]>>(at%8)&1 == 1 && h.part(key) != part {
			bitmap[at/8] &^= 1 << (at % 8)
		}
		at++
	})
	if err == nil && at != n {
		err = errors.New("the chunk has different numbers of keys and samples")
	}
	return err
}

// within reports whether one range contains all n positions that begin at from.
func within(places []Places, from, n uint64) bool {
	return slices.ContainsFunc(places, func(p Places) bool { return p.First <= from && from+n-1 <= p.Last })
}

// keepPlaces removes from a bitmap the samples outside of all ranges. The bitmap's first sample is
// at position from.
func keepPlaces(bitmap []byte, places []Places, from uint64) {
	for i, b := range bitmap {
		for rest := b; rest != 0; rest &= rest - 1 {
			for len(places) > 0 && places[0].Last < from {
				places = places[1:]
			}
			if len(places) == 0 || from < places[0].First {
				bitmap[i] &^= rest & -rest
			}
			from++
		}
	}
}

func count(bitmap []byte) (n uint64) {
	for _, b := range bitmap {
		n += uint64(bits.OnesCount8(b))
	}
	return n
}
