package published

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Shade is SHADE's sampler and cache, implemented like the authors' code (Khan et al., FAST 2023).
// It ranks the samples of each batch by loss, and gives them the weight ln(rank+10). It draws the
// next epoch with replacement by these weights. Drawn samples in the cache are repeated, shuffled
// and moved to the front. The cache orders samples by (weight, times seen). A new sample replaces
// the lowest cached one only if the new sample's last score is higher.
type Shade struct {
	capacity int
	repeat   int
	random   *rand.Rand
	weight   []float64
	seen     []int
	known    []bool  // the sample is in the ghost cache: its score was recorded
	cached   []bool  // the sample's bytes are in the cache
	queue    []int   // heap of the cached samples, lowest score first
	place    []int   // in queue
	score    []score // last recorded score of each sample
}

type score struct {
	weight float64
	seen   int
}

func (s score) less(o score) bool {
	return s.weight < o.weight || s.weight == o.weight && s.seen < o.seen
}

// NewShade returns a sampler whose empty cache holds capacity samples.
func NewShade(samples, capacity, repeat int, seed uint64) *Shade {
	s := &Shade{
		capacity: capacity, repeat: repeat, random: rand.New(rand.NewPCG(seed, 3)),
		weight: make([]float64, samples), seen: make([]int, samples), known: make([]bool, samples),
		cached: make([]bool, samples), place: make([]int, samples), score: make([]score, samples),
	}
	for i := range s.weight {
		s.weight[i] = math.Log(10 + 128) // until it is ranked: the weight of the middle of a batch of 256
	}
	return s
}

// Epoch returns the samples of the next epoch: first a permutation, later the same number of draws.
func (s *Shade) Epoch(number int) []int {
	if number == 0 {
		return s.random.Perm(len(s.weight))
	}
	sums := make([]float64, len(s.weight)+1)
	for i, w := range s.weight {
		sums[i+1] = sums[i] + w
	}
	var hits, misses []int
	for range s.weight {
		at := s.random.Float64() * sums[len(s.weight)]
		i, _ := slices.BinarySearch(sums[1:], at)
		i = min(i, len(s.weight)-1)
		if s.cached[i] {
			for range s.repeat {
				hits = append(hits, i)
			}
		} else {
			misses = append(misses, i)
		}
	}
	s.random.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
	s.random.Shuffle(len(misses), func(i, j int) { misses[i], misses[j] = misses[j], misses[i] })
	return append(hits, misses...)[:len(s.weight)]
}

// Access reads a sample, and reports whether it was in the cache.
func (s *Shade) Access(sample int) bool {
	s.seen[sample]++
	if s.cached[sample] {
		return true
	}
	if len(s.queue) >= s.capacity {
		if len(s.queue) == 0 || !s.known[sample] || !s.score[s.queue[0]].less(s.score[sample]) {
			return false
		}
		s.cached[s.queue[0]] = false
		s.swap(0, len(s.queue)-1)
		s.queue = s.queue[:len(s.queue)-1]
		s.down(0)
	}
	s.cached[sample] = true
	s.place[sample] = len(s.queue)
	s.queue = append(s.queue, sample)
	s.up(len(s.queue) - 1)
	return false
}

// Report records the losses of a batch.
func (s *Shade) Report(samples []int, losses []float64) {
	order := make([]int, len(samples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case losses[a] < losses[b]:
			return -1
		case losses[a] > losses[b]:
			return 1
		}
		return 0
	})
	for rank, i := range order {
		x := samples[i]
		s.weight[x] = math.Log(float64(rank) + 10)
		s.score[x], s.known[x] = score{s.weight[x], s.seen[x]}, true
		if s.cached[x] {
			s.up(s.place[x])
			s.down(s.place[x])
		}
	}
}

func (s *Shade) less(i, j int) bool { return s.score[s.queue[i]].less(s.score[s.queue[j]]) }

func (s *Shade) swap(i, j int) {
	s.queue[i], s.queue[j] = s.queue[j], s.queue[i]
	s.place[s.queue[i]], s.place[s.queue[j]] = i, j
}

func (s *Shade) up(i int) {
	for i > 0 && s.less(i, (i-1)/2) {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (s *Shade) down(i int) {
	for {
		least := i
		for _, c := range []int{2*i + 1, 2*i + 2} {
			if c < len(s.queue) && s.less(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}
