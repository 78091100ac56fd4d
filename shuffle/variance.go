package shuffle

// BatchVariance measures how much the number of a class's samples per batch varies if data is
// stored sorted by class, relative to independent draws (1). It sums over all classes the squared
// distance from the class's share of the batch, and divides the sum by its value for independent
// draws. It uses classes of three sizes, since no single size is the worst case of all orders.
type BatchVariance struct {
	Chunk   float64 // each chunk is a class; with a single chunk, each half of it
	Ten     float64 // 10 classes of equal numbers of consecutive samples
	Hundred float64 // 100 classes of equal numbers of consecutive samples
}

// Worst returns the largest of the three values.
func (v BatchVariance) Worst() float64 { return max(v.Chunk, v.Ten, v.Hundred) }

// Limits on the work of BatchVariance and RankVariance for orders without a formula: more work
// hardly changes the result.
const (
	lookBatches = 1 << 12 // batches of a stored order or of a window order
	lookSamples = 1 << 18 // samples of all batches of a window order; a longer batch counts as one of this length
	lookChunks  = 1 << 17 // chunks of all epochs, from which at least lookEpochs epochs are taken
	lookEpochs  = 4
)

// variance is the cached result of BatchVariance.
type variance struct {
	BatchVariance
	batchSize uint64
	known     bool
}

// BatchVariance returns the average variance of batches of batchSize samples over all seeds and
// epochs. With importance it counts draws instead of samples, with a subset the members. It costs
// O(chunks), independent of the number of samples, and nothing if batchSize is that of the previous
// call. ok is false if there is no result, since no batch has two samples to compare.
func (p *Plan) BatchVariance(batchSize uint64) (BatchVariance, bool) {
	v := p.variance.Load()
	if v == nil || v.batchSize != batchSize {
		v = &variance{batchSize: batchSize}
		v.BatchVariance, v.known = p.batchVariance(batchSize)
		p.variance.Store(v)
	}
	return v.BatchVariance, v.known
}

func (p *Plan) batchVariance(batchSize uint64) (BatchVariance, bool) {
	if p.weights != nil {
		p = p.drawn(newDraws(p, 0))
	}
	if p.samples < 2 || batchSize == 0 {
		return BatchVariance{}, false
	}
	if batchSize >= p.samples {
		return BatchVariance{}, true // every batch is the whole epoch
	}
	sets := p.sortings()
	v := [3]float64{}
	switch {
	case p.params.Shuffle == Slot:
		for i := range sets {
			v[i] = p.lanes.variance(&sets[i], p.chunks, batchSize)
		}
	case p.params.Shuffle == Window && p.windows() > 1:
		v = p.measure(batchSize, p.samples/batchSize, lookBatches, lookSamples, func(_ *Epoch, _ Share, samples []uint64, add func([]uint64)) {
			add(samples)
		})
	case p.params.Shuffle == None:
		v = p.storedVariance(&sets, batchSize)
	default: // one uniform permutation
		uniform := float64(p.samples-batchSize) / float64(p.samples-1)
		v = [3]float64{uniform, uniform, uniform}
	}
	return BatchVariance{Chunk: v[0], Ten: v[1], Hundred: v[2]}, true
}

// sorting is one partition of the stored samples into classes.
type sorting struct {
	ends  []uint64  // class c has the samples ends[c] to ends[c+1]-1
	pace  float64   // classes per sample, to guess the class of a sample
	alike float64   // probability that two samples drawn independently belong to one class
	count []float64 // count of each class: scratch space, zero between uses
	seen  []int     // the classes with a non-zero count
}

// sortings returns the three sortings of BatchVariance.
func (p *Plan) sortings() [3]sorting {
	byChunk := []uint64(p.chunks)
	filled := 0
	for c := range uint32(p.chunks.len()) {
		if p.chunks.size(c) > 0 {
			filled++
		}
	}
	if filled < 2 {
		byChunk = classes(p.samples, 2)
	}
	var sets [3]sorting
	for i, ends := range [][]uint64{byChunk, classes(p.samples, 10), classes(p.samples, 100)} {
		n := len(ends) - 1
		s := sorting{ends: ends, pace: float64(n) / float64(p.samples), count: make([]float64, n)}
		for c := range n {
			share := s.share(c)
			s.alike += share * share
		}
		sets[i] = s
	}
	return sets
}

// classes returns the boundaries of n classes among s samples; there are at most s classes.
func classes(s, n uint64) []uint64 {
	n = min(n, s)
	ends := make([]uint64, n+1)
	for c := range ends {
		ends[c] = mulDiv(uint64(c), s, n)
	}
	return ends
}

// share returns the share of a class in all samples.
func (s *sorting) share(class int) float64 {
	return float64(s.ends[class+1]-s.ends[class]) / float64(s.ends[len(s.ends)-1])
}

// each calls f with every class of the stored samples lo to hi-1, and the number of those samples
// in it.
func (s *sorting) each(lo, hi uint64, f func(class int, n float64)) {
	for c := placeNear(s.ends, 0, len(s.ends)-1, int(float64(lo)*s.pace), lo); lo < hi; c++ {
		if end := min(hi, s.ends[c+1]); end > lo {
			f(c, float64(end-lo))
			lo = end
		}
	}
}

// add adds samples of a class to the counts.
func (s *sorting) add(class int, n float64) {
	if s.count[class] == 0 {
		s.seen = append(s.seen, class)
	}
	s.count[class] += n
}

// take calls f with every counted class and its count, and resets the counts.
func (s *sorting) take(f func(class int, n float64)) {
	for _, c := range s.seen {
		f(c, s.count[c])
		s.count[c] = 0
	}
	s.seen = s.seen[:0]
}

// distance returns the sum over all classes of the squared distance between the count and the
// class's share of a batch, and resets the counts.
func (s *sorting) distance(batch float64) float64 {
	sum := batch * batch * s.alike
	s.take(func(c int, n float64) { sum += n * (n - 2*batch*s.share(c)) })
	return sum
}

// storedVariance measures all batches of the stored order, or a sample of them if there are too
// many.
func (p *Plan) storedVariance(sets *[3]sorting, batchSize uint64) (v [3]float64) {
	batches, b := p.samples/batchSize, float64(batchSize)
	looks := min(batches, lookBatches)
	for i := range looks {
		lo := batchSize * mulDiv(i, batches, looks)
		for k := range sets {
			s := &sets[k]
			s.each(lo, lo+batchSize, s.add)
			v[k] += s.distance(b) / (b * (1 - s.alike)) / float64(looks)
		}
	}
	return v
}

// measure deals random batches of several epochs within limits. It calls visit for each batch with
// its samples and returns the variances of the samples for which visit calls add, one call per
// share.
func (p *Plan) measure(batchSize, batches, most, mostSamples uint64, visit func(e *Epoch, batch Share, samples []uint64, add func([]uint64))) (v [3]float64) {
	size := min(batchSize, mostSamples)
	looks := min(most, mostSamples/size)
	epochs := min(looks, max(lookEpochs, lookChunks/uint64(p.chunks.len())))
	var all float64
	var samples []uint64
	sets, choice := p.sortings(), newKey("looks")
	for i := range epochs {
		e := p.Epoch(i)
		if p.weights != nil {
			sets = e.plan.sortings() // those of the epoch's draws
		}
		for k := mulDiv(i, looks, epochs); k < mulDiv(i+1, looks, epochs); k++ {
			batch := Share{First: batchSize * choice.draw(k, batches), Count: size}
			samples = e.Append(samples[:0], batch.First, batch.First+size)
			visit(e, batch, samples, func(share []uint64) {
				all += float64(len(share))
				for c := range sets {
					v[c] += sets[c].spread(share)
				}
			})
		}
	}
	for c := range v {
		v[c] /= max(1, all)
	}
	return v
}

// spread returns the distance of the samples of a share, relative to a single sample drawn
// independently.
func (s *sorting) spread(share []uint64) float64 {
	for _, x := range share {
		s.each(x, x+1, s.add)
	}
	return s.distance(float64(len(share))) / (1 - s.alike)
}

// MixingWindow returns the smallest window, among 2, 4, 8, ... times the plan's, with which no
// value of BatchVariance exceeds most. It returns 0 if there is none, or if the plan's shuffle has
// no window. It uses the whole dataset, each sample once.
func (p *Plan) MixingWindow(batchSize uint64, most float64) uint64 {
	params := p.params
	params.Importance, params.Subset = "", ""
	enough := uint64(p.chunks.len()) // a window that holds all chunks
	switch params.Shuffle {
	case Window:
	case Slot:
		enough = min(max(enough, batchSize), MaxLanes/2) // with more lanes than chunks, several lanes read one chunk
	default:
		return 0
	}
	for params.Window < enough {
		params.Window *= 2
		q, err := NewPlan(params, p.chunks)
		if err != nil {
			return 0
		}
		if v, ok := q.BatchVariance(batchSize); ok && v.Worst() <= most {
			return params.Window
		}
	}
	return 0
}

// RankVariance returns the BatchVariance of the share of one rank if shares follow homes
// (share=locality). It averages over the ranks, relative to the same number of samples drawn
// independently from the whole dataset. A single rank's samples, which batch normalization uses,
// are less mixed than the batch, since the rank's homes contain only a part of the chunks. It deals
// real batches of several epochs, at most 64 of them and 2^18 samples. ok is false if shares cannot
// follow these homes, or have no two samples to compare.
func (p *Plan) RankVariance(batching Batching, worldSize, homes uint64) (BatchVariance, bool) {
	batches := batching.Samples / max(1, batching.BatchSize) // full batches
	if p.CheckSharing(worldSize, homes) != nil || batches == 0 || p.samples < 2 {
		return BatchVariance{}, false
	}
	var own []uint64
	v := p.measure(batching.BatchSize, batches, movedBatches, movedSamples, func(e *Epoch, batch Share, samples []uint64, add func([]uint64)) {
		for rank := range worldSize {
			own = own[:0]
			for _, place := range e.DealHomes(batch, rank, worldSize, homes) {
				own = append(own, samples[place])
			}
			add(own)
		}
	})
	return BatchVariance{Chunk: v[0], Ten: v[1], Hundred: v[2]}, true
}
