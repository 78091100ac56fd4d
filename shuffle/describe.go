package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// inFlight is how many chunks a slot order is expected to fetch ahead of its lanes.
const inFlight = 16

// manyWindows is how many windows have to be there for their mean size to stand for each.
const manyWindows = 32

// Bounds of a simulated variance, in chunks of the dataset and samples looked at: with more, the
// figure hardly moves.
const (
	simulatedChunks  = 1 << 16
	simulatedSamples = 1 << 20
)

// OrderDigest names the order of every epoch of the plan: equal digests, equal orders. It covers the
// version of the algorithms, the shuffle, and what that shuffle depends on; O(chunks), never O(samples).
func (p *Plan) OrderDigest() string {
	h := sha256.New()
	words := make([]byte, 0, 1<<12)
	put := func(x uint64) {
		words = binary.LittleEndian.AppendUint64(words, x)
		if len(words) == cap(words) {
			h.Write(words)
			words = words[:0]
		}
	}
	put(OrderVersion)
	put(uint64(newKey(p.params.Shuffle)))
	put(p.samples)
	if p.params.Shuffle != None || p.weights != nil {
		put(p.params.Seed)
	}
	if p.params.Shuffle == Window || p.params.Shuffle == Slot {
		put(p.params.Window)
		put(uint64(p.chunks.len()))
		for _, end := range p.chunks[1:] {
			put(end)
		}
	}
	if p.params.Strata > 0 {
		put(uint64(newKey("strata")))
		put(p.params.Strata)
	}
	if p.weights != nil {
		put(uint64(len(p.params.Importance)))
		for word := range packed(p.params.Importance) {
			put(word)
		}
		put(uint64(p.chunks.len()))
		for i, w := range p.weights[1:] {
			put(w - p.weights[i])
		}
	}
	if p.members != nil {
		put(uint64(newKey("subset")))
		put(uint64(len(p.params.Subset)))
		for word := range packed(p.params.Subset) {
			put(word)
		}
	}
	h.Write(words)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Reads returns how many ranged reads of the store an epoch costs when each byte is read once and
// what a span needs is kept as long as the span lasts: one for each span. A full order has none: it reads each sample by itself.
// For Slot and with importance epochs differ, and Reads is what none of them exceeds.
func (p *Plan) Reads() uint64 {
	switch {
	case p.params.Shuffle == Full:
		return p.samples
	case p.lanes != nil && !p.lanes.holdsAll:
		return uint64(len(p.lanes.pieceChunk)) + p.lanes.width // the turn of each lane may divide a piece
	}
	filled := p.chunks
	if p.weights != nil {
		filled = p.weights
	}
	var n uint64
	for i := range filled.len() {
		if filled.size(uint32(i)) > 0 {
			n++
		}
	}
	if p.params.Shuffle == Slot && p.weights != nil && n > p.params.Window {
		n += 2*p.params.Window - 1 // each cut between lanes may divide a chunk, and each turn a piece
	}
	return n
}

// Memory returns the bytes that hold what an epoch needs at one time, whatever the seed, so that
// no chunk is fetched twice: two chunks in stored order; two windows; all lanes and the chunks
// in flight; or everything. lengths are the chunks' lengths in bytes. With importance it is the
// same: chunks without a draw may need less, never more.
func Memory(params Params, lengths []uint64) uint64 {
	n := uint64(len(lengths))
	chunks := n
	switch params.Shuffle {
	case None:
		chunks = 2
	case Window:
		if params.Window <= n/2 {
			chunks = 2 * params.Window
		}
	case Slot:
		if params.Window < n {
			chunks = params.Window + inFlight
		}
	}
	largest := slices.Sorted(slices.Values(lengths))
	var sum uint64
	for _, l := range largest[n-min(n, chunks):] {
		sum += l
	}
	return sum
}

// Variance returns how much the share of a class varies between batches, relative to samples drawn
// independently (1), in the worst case: data sorted by class, in chunks of c samples each. Where no
// formula holds, the order itself is simulated. With importance it is the figure of the draws where
// chunks weigh alike; a sample that is drawn more than once adds to it.
func Variance(params Params, chunks, c, batch uint64) float64 {
	params.Importance, params.Subset = "", ""
	if chunks < 2 || c == 0 || batch == 0 || params.check() != nil {
		return 0
	}
	n, cf, b := float64(chunks), float64(c), float64(min(batch, chunks*c))
	switch params.Shuffle {
	case None:
		if batch < chunks*c {
			return b // a batch is of one class
		}
	case Full:
		return (n*cf - b) / (n*cf - 1)
	case Window:
		width := max(1, params.Strata)
		windows := ceilDiv(ceilDiv(chunks, width), params.Window/width)
		g := n / float64(windows)
		switch {
		case chunks%(windows*width) != 0 && 1 < windows && windows < manyWindows && params.Strata > 0:
			// windows of whole rows are too unequal for the formula
		case g*cf == 1:
			return 1 // windows of one sample: the order of full
		case windows == 1 || g*cf >= b:
			f := (n - g) / (n - 1)
			return (g*cf-b)/(g*cf-1)*(1-f/g) + b*f/g
		}
	}
	return simulateVariance(params, min(chunks, max(simulatedChunks, 2*min(params.Window, chunks/2))), c, uint64(b))
}

// simulateVariance measures batches of real epochs. With classes laid over chunks in any
// arrangement, the variance over arrangements follows from how many samples of each chunk a batch holds.
func simulateVariance(params Params, chunks, c, batch uint64) float64 {
	// A batch too large to look at is made smaller together with its chunks: the share of the chunks that
	// it touches, and so the figure for each sample of a chunk, stays.
	scale := 1.0
	if batch > simulatedSamples {
		small := max(1, mulDiv(c, simulatedSamples, batch))
		scale = float64(c) / float64(small)
		batch, c = min(simulatedSamples, mulDiv(batch, small, c)), small
	}
	first := make([]uint64, chunks+1)
	for i := range first {
		first[i] = uint64(i) * c
	}
	p, err := NewPlan(params, first)
	if err != nil {
		return 0
	}
	batch = min(batch, p.samples)
	e := p.Epoch(0)
	batches := p.samples / batch
	looks := max(1, min(batches, simulatedSamples/batch))
	var sum float64
	var samples []uint64
	for i := range looks {
		m := mulDiv(i, batches, looks)
		samples = e.Append(samples[:0], m*batch, (m+1)*batch)
		sum += spread(samples, c)
	}
	n, b := float64(chunks), float64(batch)
	return scale * n / (n - 1) * (sum/float64(looks)/b - b/n)
}

// spread returns the sum over all chunks of c samples of the square of how many samples they give.
func spread(samples []uint64, c uint64) float64 {
	slices.Sort(samples)
	var sum, run float64
	for i, x := range samples {
		if i > 0 && x/c != samples[i-1]/c {
			sum += run * run
			run = 0
		}
		run++
	}
	return sum + run*run
}
