// Package shuffle computes the order in which an epoch delivers its samples: a public,
// frozen format, stated as mathematics in docs/order.md. It is pure: no I/O, no clock, no
// context, no logger, no randomness but its own published generator.
//
// A sample is known here by its number in stored order; a chunk by its number; a
// data set by the cumulative sample counts of its chunks.
package shuffle

import "iter"

// Names of the shuffles. Once released a name never changes its meaning.
const (
	None   = "none"   // stored order
	Window = "window" // chunks permuted, then the samples of each window of chunks
	Slot   = "slot"   // Brand's read redirection as a deterministic order
	Full   = "full"   // one uniform permutation of all samples
)

// OrderVersion names the generator and the definition of all shuffles together. It is part of every
// plan's identity (the ETag), so two releases never disagree silently.
const OrderVersion = 1

// Params is what fixes the order of every epoch, besides the chunks' sample counts.
type Params struct {
	Shuffle string
	Window  uint64 // chunks in a window (Window); memory lanes M (Slot); ignored by the others
	Seed    uint64
}

// Plan is the order of all epochs of one data set under one set of parameters.
// It is immutable and safe for concurrent use.
type Plan struct {
	params Params
	first  []uint64
}

// NewPlan builds a plan over chunks whose sample counts are given as prefix sums:
// chunk i holds the samples first[i] to first[i+1]-1, and first[len(first)-1] is the number
// of samples S. first begins with 0, never descends, is shared and not copied, and must not change.
// An unknown shuffle, or a window of 0 where one is used, is an error.
func NewPlan(params Params, first []uint64) (*Plan, error) { return nil, nil }

// Params returns what the plan was built from.
func (p *Plan) Params() Params { return p.params }

// Samples returns S, the number of samples of an epoch.
func (p *Plan) Samples() uint64 { return 0 }

// Epoch prepares one epoch: O(chunks) time and memory at most, never O(samples).
// The result may be kept and shared by any number of goroutines.
func (p *Plan) Epoch(epoch uint64) *Epoch { return nil }

// Epoch is the order of one epoch: a bijection between positions and samples.
type Epoch struct{}

// Number returns the epoch's number, from 0.
func (e *Epoch) Number() uint64 { return 0 }

// At returns the sample at position t < S.
func (e *Epoch) At(t uint64) uint64 { return 0 }

// Append appends the samples at positions lo to hi-1 to dst: the same as At in
// a loop, but cheaper, since what neighbours share is computed once.
func (e *Epoch) Append(dst []uint64, lo, hi uint64) []uint64 { return nil }

// Position returns the position of a sample: the inverse of At.
func (e *Epoch) Position(sample uint64) uint64 { return 0 }

// Span says that a chunk's samples (or some of them) are delivered between two positions.
type Span struct {
	Chunk       uint64 // number of the chunk
	From, To    uint64 // needed at positions From (inclusive) to To (exclusive), perhaps not at each of them
	Samples     uint64 // how many of the chunk's samples are delivered in [From, To)
	FirstSample uint64 // of the piece: the first stored sample of the chunk that belongs to this span
}

// Spans yields every span that ends after position t, in the order in which readers
// need them (by From, then by chunk). It is what prefetching and eviction know of the future. For Window, spans are
// as wide as their window; for Slot, one span per piece; for None one per chunk. A Full order has no
// locality: it yields nothing and Local reports false.
func (e *Epoch) Spans(t uint64) iter.Seq[Span] { return nil }

// Local reports whether chunks are needed in spans that are short against the epoch.
func (e *Epoch) Local() bool { return false }
