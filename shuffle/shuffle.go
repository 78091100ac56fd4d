// Package shuffle computes the order in which an epoch delivers its samples: a public, frozen
// format, defined mathematically in docs/spec/order.md. It is pure: no I/O, no clock, no context,
// no logger, no randomness except its own published generator.
//
// A sample is identified by its number in stored order, a chunk by its number, and a dataset by the
// cumulative sample counts of its chunks.
package shuffle

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// Names of the shuffles. A released name never changes its meaning.
const (
	None   = "none"   // stored order
	Window = "window" // chunks permuted, then the samples of each window of chunks
	Slot   = "slot"   // Brand's read redirection as a deterministic order
	Full   = "full"   // one uniform permutation of all samples
)

// UsesWindow reports whether a shuffle has a window: none and full have none.
func UsesWindow(name string) bool { return name == Window || name == Slot }

// OrderVersion identifies the generator and the definition of all shuffles together. It is part of
// every plan's identity (the ETag), so two releases cannot silently deliver different orders.
const OrderVersion = 1

// Limits of plans.
const (
	maxChunks  = math.MaxUint32 - 1<<20 // chunk and piece numbers are stored in 32 bits
	maxSamples = math.MaxInt64
)

// Plan is the order of all epochs of one dataset under one set of parameters.
// It is immutable and safe for concurrent use.
type Plan struct {
	params  Params
	chunks  chunkTable
	samples uint64
	lanes   *lanes   // of Slot
	strata  []uint32 // of Window with strata: chunk -> stratum
	weights []uint64 // with Importance: the total weight before each chunk, and of all chunks; otherwise nil
	members *Members // with Subset

	homeOnce  sync.Once
	homeLanes *lanes // of Slot with Importance: the lanes of phase 0, computed at the first use

	variance atomic.Pointer[variance] // the last result of BatchVariance, which all readers of an epoch request
}

// NewPlan returns a plan over chunks whose sample counts are given as prefix sums: chunk i has the
// samples first[i] to first[i+1]-1, and first[len(first)-1] is the number of samples S. first
// begins with 0 and never decreases. It is shared, not copied, and must not change. It is an error
// if the shuffle is unknown, if its window is 0, or if the strata do not divide it. For importance
// use NewWeightedPlan, for a subset NewSubsetPlan.
func NewPlan(params Params, first []uint64) (*Plan, error) {
	if params.Importance != "" {
		return nil, fmt.Errorf("plan %s: importance %s without its weights: use NewWeightedPlan", params.Shuffle, params.Importance)
	}
	if params.Subset != "" {
		return nil, fmt.Errorf("plan %s: subset %s without its members: use NewSubsetPlan", params.Shuffle, params.Subset)
	}
	p, err := newPlan(params, first)
	if err != nil {
		return nil, err
	}
	if params.Shuffle == Slot {
		p.lanes = newLanes(params, p.chunks)
	}
	return p, nil
}

// newPlan checks the arguments of a plan.
func newPlan(params Params, first []uint64) (*Plan, error) {
	if err := params.Check(); err != nil {
		return nil, err
	}
	if len(first) == 0 || first[0] != 0 {
		return nil, fmt.Errorf("plan %s: prefix sums of the chunks do not begin with 0", params.Shuffle)
	}
	if len(first)-1 > maxChunks {
		return nil, fmt.Errorf("plan %s: %d chunks, at most %d can be planned", params.Shuffle, len(first)-1, maxChunks)
	}
	for i := 1; i < len(first); i++ {
		if first[i] < first[i-1] {
			return nil, fmt.Errorf("plan %s: prefix sums of the chunks descend at chunk %d", params.Shuffle, i-1)
		}
	}
	p := &Plan{params: params, chunks: first, samples: first[len(first)-1]}
	if p.samples > maxSamples {
		return nil, fmt.Errorf("plan %s: %d samples, at most %d can be planned", params.Shuffle, p.samples, uint64(maxSamples))
	}
	if params.Strata > 0 {
		p.strata = newStrata(uint64(p.chunks.len()), params.Strata)
	}
	return p, nil
}

// Params returns the parameters of the plan.
func (p *Plan) Params() Params { return p.params }

// Samples returns S, the number of samples of an epoch: the samples of the dataset or of the
// subset, or with importance the draws, whose number is the number of samples in the dataset.
func (p *Plan) Samples() uint64 { return p.samples }

// Epoch prepares one epoch in O(chunks) time and memory at most, never O(samples). Any number of
// goroutines may share the result.
func (p *Plan) Epoch(epoch uint64) *Epoch {
	e := &Epoch{plan: p, number: epoch}
	if p.weights != nil {
		e.draws = newDraws(p, epoch)
		p = p.drawn(e.draws)
		e.plan = p
	}
	switch p.params.Shuffle {
	case Window:
		e.window = newWindowOrder(p, epoch)
	case Slot:
		e.slot = newSlotOrder(p, epoch)
	case Full:
		e.full = newPerm(newKey("full", p.params.Seed, epoch), p.samples)
	}
	return e
}

// Epoch is the order of one epoch: a bijection between positions and samples. With importance its
// samples are virtual samples, the draws. Draws maps them to samples of the dataset.
type Epoch struct {
	plan   *Plan // with importance: the plan of this epoch's virtual samples
	number uint64
	window *windowOrder // of Window
	slot   *slotOrder   // of Slot
	full   perm         // of Full
	draws  *Draws       // with importance

	deals [KeptDeals]cachedDeal // for DealHomes: all ranks need the same deals
}

// Number returns the epoch's number, from 0.
func (e *Epoch) Number() uint64 { return e.number }

// At returns the sample at position t < S.
func (e *Epoch) At(t uint64) uint64 {
	e.checkRange(t, t+1)
	switch {
	case e.window != nil:
		return e.window.at(t)
	case e.slot != nil:
		return e.slot.at(t)
	case e.plan.params.Shuffle == Full:
		return e.full.at(t)
	}
	return t
}

// Append appends the samples at positions lo to hi-1 to dst. It is cheaper than At in a loop, since
// it computes shared values of adjacent positions once.
func (e *Epoch) Append(dst []uint64, lo, hi uint64) []uint64 {
	if lo >= hi {
		return dst
	}
	e.checkRange(lo, hi)
	dst = slices.Grow(dst, int(hi-lo))
	switch {
	case e.window != nil:
		return e.window.appendRange(dst, lo, hi)
	case e.slot != nil:
		return e.slot.appendRange(dst, lo, hi)
	case e.plan.params.Shuffle == Full:
		return e.full.appendRange(dst, lo, hi)
	}
	for t := lo; t < hi; t++ {
		dst = append(dst, t)
	}
	return dst
}

// AppendShare appends the samples of a share, including padding: position S+i is position i mod S.
func (e *Epoch) AppendShare(dst []uint64, share Share) []uint64 {
	s := e.plan.samples
	if s == 0 {
		return dst
	}
	for at, left := share.First, share.Count; left > 0; {
		lo := at % s
		n := min(left, s-lo)
		dst = e.Append(dst, lo, lo+n)
		at, left = at+n, left-n
	}
	return dst
}

// Position returns the position of a sample: the inverse of At.
func (e *Epoch) Position(sample uint64) uint64 {
	e.checkRange(sample, sample+1)
	switch {
	case e.window != nil:
		return e.window.position(sample)
	case e.slot != nil:
		return e.slot.position(sample)
	case e.plan.params.Shuffle == Full:
		return e.full.place(sample)
	}
	return sample
}

// checkRange panics if the positions do not exist, which is a programming error.
func (e *Epoch) checkRange(lo, hi uint64) {
	if hi > e.plan.samples || lo >= hi {
		panic(fmt.Sprintf("shuffle: range [%d, %d) of an epoch of %d samples", lo, hi, e.plan.samples))
	}
}

// chunkTable is the prefix sums of the chunks' sample counts.
type chunkTable []uint64

func (c chunkTable) len() int             { return len(c) - 1 }
func (c chunkTable) size(i uint32) uint64 { return c[i+1] - c[i] }

// of returns the chunk of a sample.
func (c chunkTable) of(sample uint64) uint32 {
	return uint32(sort.Search(c.len(), func(i int) bool { return c[i+1] > sample }))
}
