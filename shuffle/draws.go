package shuffle

import (
	"fmt"
	"math/bits"
)

// NewWeightedPlan returns a plan whose epochs draw samples by their weights. An epoch has S draws,
// where S is the number of samples. The number of draws of a sample differs from its expectation
// S*w/W by less than one, where W is the sum of all weights. This is systematic resampling: one
// random number per epoch, no independent draws. The draws of an epoch, in stored order, are its
// virtual samples, which the shuffle orders.
//
// first is as for NewPlan. totals[i] is the sum of the weights of chunk i's samples (the weight of
// a hot sample times its repetition); the plan does not retain totals. params.Importance identifies
// the weights. In addition to the errors of NewPlan it returns an error if Importance is empty, if
// there is not one total per chunk, if a chunk without samples has a weight, or if W is 0 or not
// below 2^64.
func NewWeightedPlan(params Params, first, totals []uint64) (*Plan, error) {
	if params.Importance == "" {
		return nil, fmt.Errorf("weighted plan %s: params.Importance is empty", params.Shuffle)
	}
	if params.Subset != "" {
		return nil, fmt.Errorf("importance %s: subset %s: %w", params.Importance, params.Subset, errBoth)
	}
	p, err := newPlan(params, first)
	if err != nil {
		return nil, fmt.Errorf("importance %s: %w", params.Importance, err)
	}
	if len(totals) != p.chunks.len() {
		return nil, fmt.Errorf("importance %s: weights of %d chunks instead of %d", params.Importance, len(totals), p.chunks.len())
	}
	p.weights = make([]uint64, len(totals)+1)
	for i, w := range totals {
		if w > 0 && p.chunks.size(uint32(i)) == 0 {
			return nil, fmt.Errorf("importance %s: chunk %d has weight %d and no samples", params.Importance, i, w)
		}
		sum, carry := bits.Add64(p.weights[i], w, 0)
		if carry > 0 {
			return nil, fmt.Errorf("importance %s: weights sum to 2^64 or more", params.Importance)
		}
		p.weights[i+1] = sum
	}
	if p.weights[len(totals)] == 0 {
		return nil, fmt.Errorf("importance %s: weights sum to 0", params.Importance)
	}
	return p, nil
}

// drawn returns the plan of one epoch whose samples are the epoch's draws.
func (p *Plan) drawn(d *Draws) *Plan {
	v := &Plan{params: p.params, chunks: d.first, samples: p.samples, strata: p.strata}
	if p.params.Shuffle == Slot {
		v.lanes = newLanes(v.params, v.chunks)
	}
	return v
}

// Draws maps the virtual samples of one epoch to samples. A virtual sample is one draw. Virtual
// samples are numbered from 0 to S-1 in stored order of their samples, so the virtual samples of a
// chunk are consecutive. Within a chunk the mapping follows from the weights of its samples, which
// the caller passes: Draws itself takes O(chunks) memory. It is immutable and safe for concurrent
// use.
type Draws struct {
	chunks  chunkTable // chunks of the dataset
	weights []uint64   // total weight before each chunk
	samples uint64     // S
	total   uint64     // W
	phase   uint64     // phi, below W
	first   chunkTable // first virtual sample of each chunk
}

func newDraws(p *Plan, epoch uint64) *Draws {
	n := p.chunks.len()
	d := &Draws{
		chunks:  p.chunks,
		weights: p.weights,
		samples: p.samples,
		total:   p.weights[n],
		first:   make([]uint64, n+1),
	}
	d.phase = newKey("importance", p.params.Seed, epoch).word(0) % d.total
	for i, w := range p.weights {
		d.first[i] = d.before(w)
	}
	return d
}

// Draws returns the draws of the epoch, or nil for a plan without weights.
func (e *Epoch) Draws() *Draws { return e.draws }

// First returns prefix sums of the draws: chunk i has the virtual samples First()[i] to
// First()[i+1]-1, possibly none. The result is shared and must not be changed.
func (d *Draws) First() []uint64 { return d.first }

// before returns F, the number of draws from samples with a total weight of p: floor((p*S + phi) /
// W).
func (d *Draws) before(p uint64) uint64 {
	hi, lo := bits.Mul64(p, d.samples)
	lo, carry := bits.Add64(lo, d.phase, 0)
	q, _ := bits.Div64(hi+carry, lo, d.total) // at most S, since p <= W and phi < W
	return q
}

// reach returns the smallest total weight with v+1 draws: ceil(((v+1)*W - phi) / S).
func (d *Draws) reach(v uint64) uint64 {
	hi, lo := bits.Mul64(v+1, d.total)
	lo, borrow := bits.Sub64(lo, d.phase, 0)
	q, r := bits.Div64(hi-borrow, lo, d.samples)
	if r > 0 {
		q++
	}
	return q
}

// Sample returns the sample of virtual sample v of the epoch, as its place within the chunk, from
// 0. v is one of the chunk's virtual samples; weights are the weights of all samples of the chunk,
// in stored order.
func (d *Draws) Sample(chunk int, weights []uint32, v uint64) uint64 {
	d.check(chunk, weights)
	if v < d.first[chunk] || v >= d.first[chunk+1] {
		panic(fmt.Sprintf("shuffle: chunk %d has no virtual sample %d", chunk, v))
	}
	left, place := d.reach(v)-d.weights[chunk], 0 // left: remaining weight to reach, at least 1
	for ; len(weights)-place >= stride; place += stride {
		sum := sumOf((*[stride]uint32)(weights[place:]))
		if sum >= left {
			break
		}
		left -= sum
	}
	for ; place < len(weights); place++ {
		w := uint64(weights[place])
		if w >= left {
			return uint64(place)
		}
		left -= w
	}
	panic(fmt.Sprintf("shuffle: weights of chunk %d sum to less than its total", chunk))
}

// stride is the number of weights that Sample skips at a time. Their sums are independent of each
// other.
const stride = 16

func sumOf(w *[stride]uint32) uint64 {
	var a, b, c, d uint64
	for i := 0; i < stride; i += 4 {
		a += uint64(w[i])
		b += uint64(w[i+1])
		c += uint64(w[i+2])
		d += uint64(w[i+3])
	}
	return a + b + c + d
}

// Of returns the virtual samples of one sample, lo to hi-1, possibly none: the inverse of Sample.
// place is the sample's place within the chunk; weights are the weights of all samples of the
// chunk, in stored order.
func (d *Draws) Of(chunk int, weights []uint32, place uint64) (lo, hi uint64) {
	d.check(chunk, weights)
	sum := d.weights[chunk]
	for _, w := range weights[:place] {
		sum += uint64(w)
	}
	end := sum + uint64(weights[place])
	if end > d.weights[chunk+1] {
		panic(fmt.Sprintf("shuffle: weights of chunk %d sum to more than its total", chunk))
	}
	return d.before(sum), d.before(end)
}

// check panics if the weights belong to another chunk, which is a programming error.
func (d *Draws) check(chunk int, weights []uint32) {
	if got, want := uint64(len(weights)), d.chunks.size(uint32(chunk)); got != want {
		panic(fmt.Sprintf("shuffle: %d weights for chunk %d of %d samples", got, chunk, want))
	}
}
