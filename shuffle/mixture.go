package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sort"
)

// maxSources limits the number of sources of a mixture: each costs two divisions per position.
const maxSources = 1024

// Ingredient is one source of a mixture.
type Ingredient struct {
	Samples  uint64 // of an epoch of its own, at least 1
	Weight   uint64 // share of the positions before the schedule's first change, relative to the sum of weights; unused with fixed counts
	PerBatch uint64 // its fixed count of samples in each batch; 0 for all sources or for none
}

// Mixture maps each position of a stream to a source and a position in that source. Each source has
// its own epochs: at its end it begins the next one, independently of the other sources. The stream
// continues from epoch to epoch of the mixture. All arithmetic uses integers. It is immutable and
// safe for concurrent use.
type Mixture struct {
	seed     uint64
	samples  uint64 // T
	batch    uint64 // B, the batch size with fixed counts; otherwise 0
	sources  []source
	segments []segment // without a schedule one; none with fixed counts
}

type source struct {
	Ingredient
	first uint64 // with fixed counts: first place of this source in a batch's list
}

// NewMixture mixes sources by weight, or by fixed counts per batch if they have any. samples is T,
// the number of positions of an epoch of the mixture; 0 means the sum of the sources' samples. With
// fixed counts T is rounded up to whole batches. schedule has the segments after the first, which
// has the weights of the sources. It is an error if there is no source or more than 1024, if a
// source has no samples, if it has no share and there is no schedule, if only some have counts, if a
// sum is not below 2^63, or if the schedule is invalid.
func NewMixture(seed, samples uint64, from []Ingredient, schedule ...Segment) (*Mixture, error) {
	m := &Mixture{seed: seed, samples: samples, sources: make([]source, len(from))}
	if len(from) == 0 || len(from) > maxSources {
		return nil, fmt.Errorf("mixture of %d sources: must be 1 to %d", len(from), maxSources)
	}
	var sum, weights uint64
	for i, s := range from {
		switch {
		case s.Samples == 0:
			return nil, fmt.Errorf("mixture: source %d has no samples", i)
		case (s.PerBatch > 0) != (from[0].PerBatch > 0):
			return nil, fmt.Errorf("mixture: source %d has %d samples in a batch, source 0 has %d: either all sources have counts or none has", i, s.PerBatch, from[0].PerBatch)
		case s.PerBatch == 0 && s.Weight == 0 && len(schedule) == 0:
			return nil, fmt.Errorf("mixture: source %d has weight 0: must be at least 1", i)
		}
		m.sources[i] = source{Ingredient: s, first: m.batch}
		for _, add := range []struct{ to, n *uint64 }{{&sum, &s.Samples}, {&weights, &s.Weight}, {&m.batch, &s.PerBatch}} {
			if *add.n > maxSamples-*add.to {
				return nil, fmt.Errorf("mixture: samples, weights or counts of its sources sum to 2^63 or more")
			}
			*add.to += *add.n
		}
	}
	if m.samples == 0 {
		m.samples = sum
	}
	if m.batch > 0 && m.samples <= maxSamples {
		m.samples = ceilDiv(m.samples, m.batch) * m.batch // below 2^64, as both are below 2^63
	}
	if m.samples > maxSamples {
		return nil, fmt.Errorf("mixture of %d positions per epoch: must be at most %d", m.samples, uint64(maxSamples))
	}
	if err := m.plan(schedule); err != nil {
		return nil, err
	}
	return m, nil
}

// Samples returns T, the number of positions of an epoch of the mixture.
func (m *Mixture) Samples() uint64 { return m.samples }

// Sources returns the number of sources.
func (m *Mixture) Sources() int { return len(m.sources) }

// BatchSize returns the required batch size, which is the sum of the fixed counts, or 0 for any
// size.
func (m *Mixture) BatchSize() uint64 { return m.batch }

// Epochs returns the number of epochs of the mixture whose positions, counted from epoch 0 on, are
// all below 2^63.
func (m *Mixture) Epochs() uint64 { return maxSamples / m.samples }

// SourceSeed returns the seed of a source's own order.
func (m *Mixture) SourceSeed(i int) uint64 {
	return newKey("source", m.seed, uint64(i)).word(0)
}

// Turn is the source and source position of a position of a mixture.
type Turn struct {
	Source   int
	Epoch    uint64 // epoch of the source
	Position uint64 // position in the source's epoch
}

// At returns the turn of a position, both from 0: epoch < Epochs(), position < Samples().
func (m *Mixture) At(epoch, position uint64) Turn {
	m.check(epoch, position, position+1)
	if m.batch > 0 {
		return m.listed(epoch, position)
	}
	i, n := m.drawn(epoch*m.samples + position)
	return m.turn(i, n)
}

// Append appends the turns of the positions lo to hi-1 to dst.
func (m *Mixture) Append(dst []Turn, epoch, lo, hi uint64) []Turn {
	if lo >= hi {
		return dst
	}
	m.check(epoch, lo, hi)
	for t := lo; t < hi; t++ {
		dst = append(dst, m.At(epoch, t))
	}
	return dst
}

// turn converts sample n of a source, counted over all its epochs, to an epoch and a position.
func (m *Mixture) turn(i int, n uint64) Turn {
	s := m.sources[i].Samples
	return Turn{Source: i, Epoch: n / s, Position: n % s}
}

// drawn returns the source of position t of the stream, and the number of its samples at earlier
// positions.
func (m *Mixture) drawn(t uint64) (source int, n uint64) {
	g := m.segmentOf(t)
	left, next := t-g.first, t-g.first+1
	for i := range m.sources {
		s := &g.shares[i]
		a, b := s.of(left), s.of(next)
		if a != b {
			return i, s.taken + a
		}
		left, next = left-a, next-b
	}
	panic("shuffle: a mixture's counts do not sum to its positions")
}

// listed returns the turn of a position with fixed counts.
func (m *Mixture) listed(epoch, position uint64) Turn {
	batch, place := position/m.batch, position%m.batch
	p := m.mix(epoch, batch)
	rank := p.at(place)
	i := m.holder(rank)
	s := &m.sources[i]
	return m.turn(i, m.before(epoch, batch)*s.PerBatch+rank-s.first)
}

// mix returns the permutation of a batch's list.
func (m *Mixture) mix(epoch, batch uint64) perm {
	return newPerm(newKey("mix", m.seed, epoch, batch), m.batch)
}

// before returns the number of batches before a batch, from epoch 0 on.
func (m *Mixture) before(epoch, batch uint64) uint64 { return epoch*(m.samples/m.batch) + batch }

// holder returns the source at a place in a batch's list.
func (m *Mixture) holder(rank uint64) int {
	i := 0
	for i+1 < len(m.sources) && m.sources[i+1].first <= rank {
		i++
	}
	return i
}

// Counts returns for each source its number of positions before the given one, counted from epoch 0
// on. position may be Samples(), the epoch's end.
func (m *Mixture) Counts(epoch, position uint64) []uint64 {
	m.check(epoch, max(position, 1)-1, max(position, 1))
	out := make([]uint64, len(m.sources))
	if m.batch > 0 {
		batch := position / m.batch
		for i, s := range m.sources {
			out[i] = m.before(epoch, batch) * s.PerBatch
		}
		p := m.mix(epoch, batch)
		for place := range position % m.batch {
			out[m.holder(p.at(place))]++
		}
		return out
	}
	t := epoch*m.samples + position
	m.segmentOf(t).countInto(out, t)
	return out
}

// Find returns the position of the mixture at which sample n of a source is delivered: the inverse
// of At. n is counted over all epochs of the source. ok is false if that is after the last epoch of
// the mixture.
func (m *Mixture) Find(sourceNumber int, n uint64) (epoch, position uint64, ok bool) {
	s := &m.sources[sourceNumber]
	if m.batch > 0 {
		batch, perEpoch := n/s.PerBatch, m.samples/m.batch
		if epoch = batch / perEpoch; epoch >= m.Epochs() {
			return 0, 0, false
		}
		batch %= perEpoch
		p := m.mix(epoch, batch)
		return epoch, batch*m.batch + p.place(s.first+n%s.PerBatch), true
	}
	taken, end := make([]uint64, sourceNumber+1), m.Epochs()*m.samples
	t := uint64(sort.Search(int(end), func(t int) bool { // the least t with n_i(t+1) > n
		m.segmentOf(uint64(t)+1).countInto(taken, uint64(t)+1)
		return taken[sourceNumber] > n
	}))
	return t / m.samples, t % m.samples, t < end
}

// check panics if the positions do not exist, which is a programming error.
func (m *Mixture) check(epoch, lo, hi uint64) {
	if epoch >= m.Epochs() || hi > m.samples || lo >= hi {
		panic(fmt.Sprintf("shuffle: range [%d, %d) of epoch %d of a mixture of %d positions and %d epochs", lo, hi, epoch, m.samples, m.Epochs()))
	}
}

// OrderDigest identifies the order of all epochs of the mixture. plans has the order digest of each
// source's plan, whose seed is SourceSeed.
func (m *Mixture) OrderDigest(plans []string) string {
	h := sha256.New()
	put := func(words ...uint64) {
		for _, w := range words {
			h.Write(binary.LittleEndian.AppendUint64(nil, w))
		}
	}
	put(OrderVersion, uint64(newKey("mixture")), m.seed, m.samples, uint64(len(m.sources)))
	for i, s := range m.sources {
		weight := s.Weight
		if m.batch > 0 {
			weight = 0
		}
		put(s.Samples, weight, s.PerBatch)
		h.Write([]byte(plans[i]))
	}
	m.putSchedule(put)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
