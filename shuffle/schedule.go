package shuffle

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
)

// maxSegments limits the segments of a schedule: each stores three numbers per source.
const maxSegments = 256

// Segment is a part of a schedule, which ends at the next segment.
type Segment struct {
	First   uint64   // position, counted over all epochs of the mixture
	Weights []uint64 // weight of each source; 0: absent
}

// segment is a Segment with the numbers that its positions require.
type segment struct {
	first  uint64 // p_s
	shares []share
}

// share is a source's share of a segment.
type share struct {
	weight uint64
	phase  uint64 // phi_i
	rest   uint64 // U_i, or 1 if that is 0
	taken  uint64 // taken_i(p_s)
}

// plan computes the segments of a mixture by weight.
func (m *Mixture) plan(schedule []Segment) error {
	switch {
	case m.batch > 0 && len(schedule) > 0:
		return fmt.Errorf("mixture: a schedule requires weights, not counts per batch")
	case m.batch > 0:
		return nil
	case len(schedule) >= maxSegments:
		return fmt.Errorf("mixture: schedule of %d segments: must be at most %d", len(schedule)+1, maxSegments)
	}
	own := make([]uint64, len(m.sources))
	for i, s := range m.sources {
		own[i] = s.Weight
	}
	m.segments = make([]segment, 0, len(schedule)+1)
	for _, from := range append([]Segment{{Weights: own}}, schedule...) {
		g, err := m.newSegment(from)
		if err != nil {
			return fmt.Errorf("mixture: segment %d: %w", len(m.segments), err)
		}
		m.segments = append(m.segments, g)
	}
	return nil
}

// newSegment returns the segment that follows the present ones.
func (m *Mixture) newSegment(from Segment) (segment, error) {
	g := segment{first: from.First, shares: make([]share, len(from.Weights))}
	if len(from.Weights) != len(m.sources) {
		return g, fmt.Errorf("has %d weights: must have one for each of %d sources", len(from.Weights), len(m.sources))
	}
	var rest uint64
	for _, w := range from.Weights {
		if w > maxSamples-rest {
			return g, fmt.Errorf("weights sum to 2^63 or more")
		}
		rest += w
	}
	if rest == 0 {
		return g, fmt.Errorf("has no positive weight")
	}
	taken := make([]uint64, len(m.sources))
	if n := len(m.segments); n > 0 {
		last := &m.segments[n-1]
		if g.first <= last.first || g.first > maxSamples {
			return g, fmt.Errorf("begins at position %d: must be after %d and below 2^63", g.first, last.first)
		}
		last.countInto(taken, g.first)
	}
	for i, w := range from.Weights {
		k := newKey("mixture", m.seed, uint64(i))
		if g.first > 0 {
			k = k.with(g.first)
		}
		g.shares[i] = share{weight: w, phase: k.word(0) % max(rest, 1), rest: max(rest, 1), taken: taken[i]}
		rest -= w
	}
	return g, nil
}

// segmentOf returns the segment of position t of the stream.
func (m *Mixture) segmentOf(t uint64) *segment { return &m.segments[max(m.segmentsBefore(t+1), 1)-1] }

// segmentsBefore returns the number of segments that begin before position t of the stream.
func (m *Mixture) segmentsBefore(t uint64) int {
	return sort.Search(len(m.segments), func(s int) bool { return m.segments[s].first >= t })
}

// of returns the number of positions of this source among the first t positions of the segment left
// by the previous sources.
func (s *share) of(t uint64) uint64 {
	hi, lo := bits.Mul64(t, s.weight)
	lo, carry := bits.Add64(lo, s.phase, 0)
	n, _ := bits.Div64(hi+carry, lo, s.rest) // at most t, since the weight is at most rest and the phase is below rest
	return n
}

// countInto stores the count of each source before position t of the stream, which is in the segment
// or at its end.
func (g *segment) countInto(out []uint64, t uint64) {
	t -= g.first
	for i := range out {
		n := g.shares[i].of(t)
		out[i] = g.shares[i].taken + n
		t -= n
	}
}

// Until returns the part of the mixture that the positions before the given one depend on: the
// segments that begin before it, and the sources up to the last with a weight in these. Mixtures
// whose parts have equal order digests have equal orders before the position.
func (m *Mixture) Until(epoch, position uint64) *Mixture {
	m.check(epoch, max(position, 1)-1, max(position, 1))
	return m.cut(max(m.segmentsBefore(epoch*m.samples+position), 1))
}

// cut returns the mixture of the first segments, and the sources up to the last with a weight in
// these.
func (m *Mixture) cut(segments int) *Mixture {
	if len(m.segments) <= 1 {
		return m
	}
	cut := *m
	cut.segments = m.segments[:segments]
	absent := func(i int) bool {
		return !slices.ContainsFunc(cut.segments, func(g segment) bool { return g.shares[i].weight > 0 })
	}
	n := len(m.sources)
	for absent(n - 1) {
		n--
	}
	cut.sources = m.sources[:n]
	return &cut
}

// DigestAt is the order digest of a segment and those before it.
type DigestAt struct {
	Position uint64 // first position of the segment
	Digest   string
}

// OrderDigests returns the order digest of each segment; without a schedule one. A job that has read
// the positions before t continues the order of all mixtures with the same last digest before t.
func (m *Mixture) OrderDigests(plans []string) []DigestAt {
	if len(m.segments) == 0 {
		return []DigestAt{{0, m.OrderDigest(plans)}}
	}
	out := make([]DigestAt, len(m.segments))
	for s, g := range m.segments {
		out[s] = DigestAt{g.first, m.cut(s + 1).OrderDigest(plans)}
	}
	return out
}

// putSchedule adds the words of a schedule to a digest.
func (m *Mixture) putSchedule(put func(...uint64)) {
	if len(m.segments) <= 1 {
		return
	}
	put(uint64(newKey("schedule")), uint64(len(m.segments)))
	for _, g := range m.segments[1:] {
		put(g.first)
		for i := range m.sources {
			put(g.shares[i].weight)
		}
	}
}
