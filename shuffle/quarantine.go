package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
)

// Quarantine replaces bad samples by healthy ones, with different substitutes in each epoch, and
// changes no other position. Its sample numbers are those of the plan: of the dataset, or of a
// subset. It takes a few words per bad sample, in addition to the plan's chunk table. It is
// immutable and safe for concurrent use.
type Quarantine struct {
	seed   uint64
	chunks chunkTable
	bad    []uint64       // ascending
	broken []damagedChunk // chunks with bad samples, ascending
}

// damagedChunk is a chunk with bad samples.
type damagedChunk struct {
	chunk   uint32
	healthy uint32 // the chunk that provides the substitutes: this one, or the next with healthy samples
	first   int    // index of its first bad sample in Quarantine.bad
}

// NewQuarantine returns the quarantine of a plan with this seed and these prefix sums of chunks
// (those of the plan; shared and not copied). bad lists the numbers of the bad samples, ascending,
// each once. It is an error if bad is not such a list, if a sample does not exist, or if no healthy
// sample is left.
func NewQuarantine(seed uint64, first, bad []uint64) (*Quarantine, error) {
	p, err := newPlan(Params{Shuffle: None}, first)
	if err != nil {
		return nil, fmt.Errorf("quarantine: %w", err)
	}
	for i, x := range bad {
		switch {
		case x >= p.samples:
			return nil, fmt.Errorf("quarantine: sample %d of %d", x, p.samples)
		case i > 0 && x <= bad[i-1]:
			return nil, fmt.Errorf("quarantine: sample %d after sample %d", x, bad[i-1])
		}
	}
	if len(bad) > 0 && uint64(len(bad)) == p.samples {
		return nil, fmt.Errorf("quarantine: all %d samples are bad", p.samples)
	}
	q := &Quarantine{seed: seed, chunks: p.chunks, bad: slices.Clone(bad)}
	for i := 0; i < len(bad); {
		chunk := q.chunks.of(bad[i])
		q.broken = append(q.broken, damagedChunk{chunk: chunk, first: i})
		i += sort.Search(len(bad)-i, func(k int) bool { return bad[i+k] >= q.chunks[chunk+1] })
	}
	q.findHealthy()
	return q, nil
}

// Bytes returns the memory of the quarantine, including the shared chunk table.
func (q *Quarantine) Bytes() int64 {
	return 256 + 8*int64(cap(q.bad)) + 16*int64(cap(q.broken)) + 8*int64(cap(q.chunks))
}

// findHealthy sets the chunk that provides the substitutes for each chunk with bad samples, from
// the last chunk down. After the last chunk the search wraps around to the first.
func (q *Quarantine) findHealthy() {
	if !slices.ContainsFunc(q.broken, func(b damagedChunk) bool { return q.left(b.chunk) == 0 }) {
		for i := range q.broken {
			q.broken[i].healthy = q.broken[i].chunk
		}
		return
	}
	next := uint32(0)
	for q.left(next) == 0 {
		next++
	}
	at := len(q.broken) - 1
	for c := q.chunks.len() - 1; c >= 0 && at >= 0; c-- {
		chunk := uint32(c)
		if q.left(chunk) > 0 {
			next = chunk
		}
		if q.broken[at].chunk == chunk {
			q.broken[at].healthy = next
			at--
		}
	}
}

// badOf returns the bad samples of a chunk.
func (q *Quarantine) badOf(chunk uint32) []uint64 {
	i, found := q.find(chunk)
	if !found {
		return nil
	}
	return q.bad[q.broken[i].first:q.end(i)]
}

func (q *Quarantine) find(chunk uint32) (int, bool) {
	return slices.BinarySearchFunc(q.broken, chunk, func(b damagedChunk, c uint32) int { return int(int64(b.chunk) - int64(c)) })
}

// end returns the index in bad after the last bad sample of a damaged chunk.
func (q *Quarantine) end(i int) int {
	if i+1 < len(q.broken) {
		return q.broken[i+1].first
	}
	return len(q.bad)
}

// left returns the number of healthy samples of a chunk.
func (q *Quarantine) left(chunk uint32) uint64 {
	return q.chunks.size(chunk) - uint64(len(q.badOf(chunk)))
}

// healthy returns the k-th healthy sample of a chunk, in stored order.
func (q *Quarantine) healthy(chunk uint32, k uint64) uint64 {
	first, bad := q.chunks[chunk], q.badOf(chunk)
	before := sort.Search(len(bad), func(i int) bool { return bad[i]-first-uint64(i) > k })
	return first + k + uint64(before)
}

// Len returns the number of bad samples.
func (q *Quarantine) Len() int { return len(q.bad) }

// Bad returns the bad samples, ascending. The result is shared and must not be changed.
func (q *Quarantine) Bad() []uint64 { return q.bad }

// Has reports whether a sample is bad.
func (q *Quarantine) Has(sample uint64) bool {
	_, found := slices.BinarySearch(q.bad, sample)
	return found
}

// Substitute returns the sample that an epoch delivers in place of the given sample, or the given
// sample if it is healthy.
func (q *Quarantine) Substitute(epoch, sample uint64) uint64 {
	at, found := slices.BinarySearch(q.bad, sample)
	if !found {
		return sample
	}
	i, found := slices.BinarySearchFunc(q.broken, at, func(b damagedChunk, at int) int { return b.first - at })
	if !found {
		i--
	}
	b := q.broken[i]
	n := q.left(b.healthy)
	return q.healthy(b.healthy, q.turn(epoch, b.chunk, uint64(at-b.first), n))
}

// turn returns which of n healthy samples replaces bad sample j of a chunk.
func (q *Quarantine) turn(epoch uint64, chunk uint32, j, n uint64) uint64 {
	return (j%n + newKey("quarantine", q.seed, epoch, uint64(chunk)).word(0)%n) % n
}

// Replace replaces the bad samples in a slice.
func (q *Quarantine) Replace(epoch uint64, samples []uint64) {
	for i, x := range samples {
		samples[i] = q.Substitute(epoch, x)
	}
}

// Replaced returns the bad samples that an epoch replaces by the given sample, ascending: the
// inverse of Substitute, without the sample itself. An epoch that delivers each position once
// delivers a healthy sample 1 + len(Replaced) times, and a bad sample never.
func (q *Quarantine) Replaced(epoch, sample uint64) []uint64 {
	if sample >= q.chunks[q.chunks.len()] || q.Has(sample) {
		return nil
	}
	chunk := q.chunks.of(sample)
	n := q.left(chunk)
	var out []uint64
	for i, b := range q.broken {
		if b.healthy != chunk {
			continue
		}
		for j, x := range q.bad[b.first:q.end(i)] {
			if q.healthy(chunk, q.turn(epoch, b.chunk, uint64(j), n)) == sample {
				out = append(out, x)
			}
		}
	}
	return out
}

// OrderDigest identifies the order of a plan with the quarantine, like Plan.OrderDigest does
// without a quarantine.
func (q *Quarantine) OrderDigest(plan *Plan) string {
	h := sha256.New()
	h.Write([]byte(plan.OrderDigest()))
	put := func(words ...uint64) {
		b := make([]byte, 0, 8*len(words))
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		h.Write(b)
	}
	put(uint64(newKey("quarantine")), q.seed, uint64(q.chunks.len()))
	put(q.chunks[1:]...)
	put(uint64(len(q.bad)))
	put(q.bad...)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Most returns the maximum number of times that an epoch delivers a sample, if its order has each
// position once.
func (q *Quarantine) Most(sample uint64) uint64 {
	if sample >= q.chunks[q.chunks.len()] || q.Has(sample) {
		return 0
	}
	chunk, most := q.chunks.of(sample), uint64(1)
	for i, b := range q.broken {
		if b.healthy == chunk {
			most += ceilDiv(uint64(q.end(i)-b.first), q.left(chunk))
		}
	}
	return most
}
