package shuffle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// NewSubsetPlan returns a plan whose epochs deliver the samples of a subset of the dataset, each
// once. Chunks retain their numbers; a chunk without samples of the subset counts as empty. The
// samples of the subset, in stored order, are the plan's virtual samples. Members maps them to
// samples of the dataset.
//
// first is as for NewPlan. members are the prefix sums of the number of each chunk's samples in the
// subset, shared and not copied. params.Subset identifies it. In addition to the errors of NewPlan
// it returns an error if Subset is empty, if there is not one sum per chunk, or if a chunk has more
// members than samples.
func NewSubsetPlan(params Params, first, members []uint64) (*Plan, error) {
	if params.Subset == "" {
		return nil, fmt.Errorf("plan %s: params.Subset is empty", params.Shuffle)
	}
	if params.Importance != "" {
		return nil, fmt.Errorf("subset %s: %w", params.Subset, errBoth)
	}
	all, err := newPlan(Params{Shuffle: None}, first)
	if err != nil {
		return nil, fmt.Errorf("subset %s: %w", params.Subset, err)
	}
	if len(members) != len(first) {
		return nil, fmt.Errorf("subset %s: the membership list covers %d chunks, want %d", params.Subset, len(members)-1, all.chunks.len())
	}
	p, err := newPlan(params, members)
	if err != nil {
		return nil, fmt.Errorf("subset %s: %w", params.Subset, err)
	}
	for i := range uint32(all.chunks.len()) {
		if p.chunks.size(i) > all.chunks.size(i) {
			return nil, fmt.Errorf("subset %s: chunk %d has %d members, but only %d samples", params.Subset, i, p.chunks.size(i), all.chunks.size(i))
		}
	}
	if params.Shuffle == Slot {
		p.lanes = newLanes(params, p.chunks)
	}
	p.members = &Members{chunks: all.chunks, first: p.chunks}
	return p, nil
}

var errBoth = errors.New("importance and subset cannot be combined: weights are for all samples")

// Members maps the virtual samples of a plan over a subset to samples of the dataset. Within a
// chunk the mapping follows from its bitmap, which the caller passes. The bitmap has a bit for each
// sample of the chunk, the lowest bit of a byte first, set for the members. It is immutable and
// safe for concurrent use.
type Members struct {
	chunks chunkTable // chunks of the dataset
	first  chunkTable // first virtual sample of each chunk
}

// Members returns the members of the plan's subset, or nil for a plan over all samples.
func (p *Plan) Members() *Members { return p.members }

// First returns prefix sums of the members: chunk i has the virtual samples First()[i] to
// First()[i+1]-1, possibly none. The result is shared and must not be changed.
func (m *Members) First() []uint64 { return m.first }

// Sample returns the sample of virtual sample v, as its place within the chunk, from 0. v is one of
// the chunk's virtual samples.
func (m *Members) Sample(chunk int, bitmap []byte, v uint64) uint64 {
	m.check(chunk, bitmap)
	if v < m.first[chunk] || v >= m.first[chunk+1] {
		panic(fmt.Sprintf("shuffle: chunk %d has no virtual sample %d", chunk, v))
	}
	left, at := v-m.first[chunk], uint64(0)
	for rest := bitmap; len(rest) > 0; at += 64 {
		var word uint64
		if len(rest) >= 8 {
			word, rest = binary.LittleEndian.Uint64(rest), rest[8:]
		} else {
			var short [8]byte
			copy(short[:], rest)
			word, rest = binary.LittleEndian.Uint64(short[:]), nil
		}
		n := uint64(bits.OnesCount64(word))
		if left >= n {
			left -= n
			continue
		}
		for ; left > 0; left-- {
			word &= word - 1
		}
		return at + uint64(bits.TrailingZeros64(word))
	}
	panic(fmt.Sprintf("shuffle: the bitmap of chunk %d has fewer members than its count", chunk))
}

// Of returns the virtual sample of a sample, given by its place within the chunk: the inverse of
// Sample. ok is false if the sample is not in the subset.
func (m *Members) Of(chunk int, bitmap []byte, place uint64) (v uint64, ok bool) {
	m.check(chunk, bitmap)
	if bitmap[place/8]>>(place%8)&1 == 0 {
		return 0, false
	}
	v = m.first[chunk] + uint64(bits.OnesCount8(bitmap[place/8]&(1<<(place%8)-1)))
	for _, b := range bitmap[:place/8] {
		v += uint64(bits.OnesCount8(b))
	}
	return v, true
}

// check panics if the bitmap belongs to another chunk, which is a programming error.
func (m *Members) check(chunk int, bitmap []byte) {
	if got, want := uint64(len(bitmap)), (m.chunks.size(uint32(chunk))+7)/8; got != want {
		panic(fmt.Sprintf("shuffle: a bitmap of %d bytes for chunk %d instead of %d", got, chunk, want))
	}
}
