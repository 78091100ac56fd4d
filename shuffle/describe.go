package shuffle

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// inFlight is the expected number of chunks that a slot order fetches ahead of its lanes.
const inFlight = 16

// OrderDigest identifies the order of all epochs of the plan: equal digests mean equal orders. It
// includes the version of the algorithms, the shuffle, and all inputs of that shuffle. It costs
// O(chunks), never O(samples).
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
	if UsesWindow(p.params.Shuffle) {
		put(p.params.Window)
		put(uint64(p.chunks.len()))
		for _, end := range p.chunks[1:] {
			put(end)
		}
	}
	for _, word := range p.params.words() {
		put(word)
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

// Reads returns the number of ranged store reads per epoch, one for each span, if each byte is read
// once and stays in memory for its span. A full order has no spans, so it reads each sample by
// itself. For Slot and with importance epochs differ, and Reads is an upper bound.
func (p *Plan) Reads() uint64 {
	switch {
	case p.params.Shuffle == Full:
		return p.samples
	case p.lanes != nil && !p.lanes.holdsAll:
		return uint64(len(p.lanes.pieceChunk)) + p.lanes.width // the turn of a lane may divide a piece
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
		n += 2*p.params.Window - 1 // each cut between lanes may divide a chunk, and each lane's turn a piece
	}
	return n
}

// Memory returns the memory, in bytes, with which an epoch fetches no chunk twice, for any seed.
// This memory holds two chunks for None, two windows for Window, all lanes and the chunks in flight
// for Slot, and all chunks for Full. lengths are the chunks' lengths in bytes. It ignores
// importance: chunks without a draw may need less memory, never more.
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
