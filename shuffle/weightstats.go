package shuffle

import "math/bits"

// WeightStats summarizes the weights of a dataset for epochs that draw by weight. It counts in
// integers, so the order of chunks does not matter. Use NewWeightStats to create one.
type WeightStats struct {
	draws, total uint64
	always       uint64 // samples with an expectation of at least one draw
	rest         uint64 // total weight of the other samples
	samples      uint64
	sum          uint64
	squareHi     uint64 // sum of the squares, 128 bits
	squareLo     uint64
}

// NewWeightStats returns statistics without samples, for an epoch with the given number of draws,
// by weights that sum to total (below 2^64).
func NewWeightStats(draws, total uint64) *WeightStats {
	return &WeightStats{draws: draws, total: total}
}

// Add adds samples, given by their weights.
func (s *WeightStats) Add(weights []uint32) {
	for _, w := range weights {
		if hi, lo := bits.Mul64(uint64(w), s.draws); hi > 0 || lo >= s.total {
			s.always++
		} else {
			s.rest += uint64(w)
		}
		var carry uint64
		s.squareLo, carry = bits.Add64(s.squareLo, uint64(w)*uint64(w), 0)
		s.squareHi += carry
		s.sum += uint64(w)
	}
	s.samples += uint64(len(weights))
}

// Coverage returns the expected share, from 0 to 1, of the added samples that an epoch delivers at
// least once. A sample of weight w is delivered with certainty if w*draws/total is at least 1,
// otherwise with that probability.
func (s *WeightStats) Coverage() float64 {
	if s.samples == 0 || s.total == 0 {
		return 0
	}
	return (float64(s.always) + float64(s.rest)*float64(s.draws)/float64(s.total)) / float64(s.samples)
}

// EffectiveSamples returns Kish's effective sample size of the added weights, (sum w)^2 / sum w^2:
// the number of equally weighted samples with the same variance of the mean (L. Kish, Survey
// Sampling, 1965).
func (s *WeightStats) EffectiveSamples() float64 {
	square := float64(s.squareHi)*(1<<64) + float64(s.squareLo)
	if square == 0 {
		return 0
	}
	return float64(s.sum) / square * float64(s.sum)
}
