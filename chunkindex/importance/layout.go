package importance

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"strings"
)

// A snapshot (docs/spec/importance.md) consists of a header, a plan, a chunk table, and the weights
// and hot bits of each chunk's samples.
const (
	snapshotMagic   = "MRWEIGHT"
	snapshotVersion = 1
	snapshotHeader  = 176
	chunkRecord     = 16

	maxChunks       = math.MaxUint32 >> 4
	maxChunkSamples = 1 << 26
	maxSamples      = 1 << 34   // limits the sum of all repeated weights to less than 2^64
	maxRepeat       = 1000      // limits a repeated weight to 32 bits
	millionth       = 1_000_000 // unit of the share of hot samples
)

// head is a snapshot's header, as it is stored.
type head struct {
	Magic      [8]byte
	Version    uint32
	Order      uint32 // version of the sample order that mapped positions to samples
	Generation rawDigest
	Base       rawDigest // digest of the snapshot that provided the weights of unreported samples; zero: none
	Epoch      uint64
	BatchSize  uint64
	Samples    uint64
	Chunks     uint64
	Hot        uint64 // hot samples
	Total      uint64 // sum of all weights, including repetition
	Positions  uint64 // number of positions with reported losses
	Conflicts  uint64 // number of positions with several losses
	HotShare   uint32 // in millionths
	Repeat     uint32
	Plan       uint32 // bytes
	PlanCRC    uint32
	TableCRC   uint32
	Reserved   [2]uint32
	CRC        uint32 // CRC-32C of the preceding bytes
}

// rawDigest is a SHA-256.
type rawDigest [32]byte

// parseDigest returns the bytes of a valid digest.
func parseDigest(text string) (d rawDigest) {
	_, _ = hex.Decode(d[:], []byte(text))
	return d
}

// String returns the digest in hexadecimal digits, or "" if it is zero.
func (d rawDigest) String() string {
	if d == (rawDigest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

func (h *head) encode() []byte {
	h.Magic, h.Version = [8]byte([]byte(snapshotMagic)), snapshotVersion
	b, _ := binary.Append(nil, binary.LittleEndian, h)
	binary.LittleEndian.PutUint32(b[snapshotHeader-4:], crc32.Checksum(b[:snapshotHeader-4], castagnoli()))
	return b
}

// decodeHead decodes a header and checks all that the header itself determines.
func decodeHead(b []byte) (*head, error) {
	h := &head{}
	if _, err := binary.Decode(b, binary.LittleEndian, h); err != nil || string(h.Magic[:]) != snapshotMagic {
		return nil, corrupt("not a snapshot of weights")
	}
	if crc32.Checksum(b[:snapshotHeader-4], castagnoli()) != h.CRC {
		return nil, corrupt("header: checksum is wrong")
	}
	if h.Version != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d: %w", h.Version, ErrVersion)
	}
	switch {
	case h.Samples == 0 || h.Samples > maxSamples || h.Chunks == 0 || h.Chunks > maxChunks:
		return nil, corrupt("header: invalid numbers: %d samples in %d chunks", h.Samples, h.Chunks)
	case h.BatchSize == 0 || h.BatchSize > MaxBatch || h.Plan == 0 || h.Plan > maxPlan:
		return nil, corrupt("header: invalid numbers: batches of %d, plan of %d bytes", h.BatchSize, h.Plan)
	case h.Repeat == 0 || h.Repeat > maxRepeat || h.HotShare > millionth || h.Hot != hotSamples(h.Samples, h.HotShare):
		return nil, corrupt("header: invalid numbers: %d hot samples, repeated %d times", h.Hot, h.Repeat)
	case h.Positions == 0 || h.Conflicts > h.Positions || h.Reserved != [2]uint32{} || h.Order == 0:
		return nil, corrupt("header: its counts do not agree")
	}
	return h, nil
}

// hotSamples returns floor(samples * share), where share is in millionths.
func hotSamples(samples uint64, share uint32) uint64 {
	hi, lo := bits.Mul64(samples, uint64(share))
	n, _ := bits.Div64(hi, lo, millionth)
	return n
}

// tableOffset returns the offset of the chunk table. blocks returns the offset of the first chunk's
// block.
func (h *head) tableOffset() int64 { return snapshotHeader + int64(h.Plan) }
func (h *head) blocks() int64      { return h.tableOffset() + chunkRecord*int64(h.Chunks) }

// blockSize returns the length of the block of n samples, which has one weight and one bit per
// sample.
func blockSize(n uint64) int64 { return int64(4*n + (n+7)/8) }

// fits checks that a header and an object size match a dataset, before any allocation or download.
// first contains the prefix sums of the dataset's chunk sample counts.
func (h *head) fits(first []uint64, size int64) error {
	if h.Chunks != uint64(len(first)-1) || h.Samples != first[len(first)-1] {
		return corrupt("it has %d samples in %d chunks, but the dataset has %d in %d", h.Samples, h.Chunks, first[len(first)-1], len(first)-1)
	}
	end := h.blocks()
	for i := range h.Chunks {
		end += blockSize(first[i+1] - first[i])
	}
	if end != size {
		return corrupt("it has %d bytes instead of %d", size, end)
	}
	return nil
}

// checkFirst validates the prefix sums of a dataset's chunks.
func checkFirst(first []uint64) error {
	switch {
	case len(first) < 2 || first[0] != 0 || first[len(first)-1] == 0:
		return errors.New("no samples")
	case uint64(len(first)-1) > maxChunks || first[len(first)-1] > maxSamples:
		return fmt.Errorf("%d samples in %d chunks exceed the limits", first[len(first)-1], len(first)-1)
	}
	for i := 1; i < len(first); i++ {
		if first[i] < first[i-1] || first[i]-first[i-1] > maxChunkSamples {
			return fmt.Errorf("chunk %d has an impossible number of samples", i-1)
		}
	}
	return nil
}

// chunkEntry is a row of the chunk table, as it is stored.
type chunkEntry struct {
	Total   uint64 // sum of the weights of the chunk's samples, including repetition
	Samples uint32
	CRC     uint32 // CRC-32C of the chunk's block
}

// Hot is the set of a chunk's hot samples: one bit per sample, lowest bit of a byte first. Do not
// modify it.
type Hot []byte

// Has reports whether the sample at a position of the chunk, from 0, is hot.
func (h Hot) Has(place uint64) bool { return h[place/8]>>(place%8)&1 == 1 }

// Count returns the number of hot samples.
func (h Hot) Count() uint64 {
	n := 0
	for _, b := range h {
		n += bits.OnesCount8(b)
	}
	return uint64(n)
}

// appendBlock appends the block of a chunk to b.
func appendBlock(b []byte, weights []uint32, hot Hot) []byte {
	for _, w := range weights {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, hot...)
}

// block is the decoded block of a chunk.
type block struct {
	weights []uint32 // before repetition
	hot     Hot
}

// decodeBlock validates a block against its row of the chunk table. The result shares b's memory.
func (h *head) decodeBlock(b []byte, e chunkEntry) (*block, error) {
	n := uint64(e.Samples)
	if int64(len(b)) != blockSize(n) || crc32.Checksum(b, castagnoli()) != e.CRC {
		return nil, corrupt("checksum is wrong")
	}
	c := &block{weights: make([]uint32, n), hot: b[4*n:]}
	if n%8 != 0 && c.hot[n/8]>>(n%8) != 0 {
		return nil, corrupt("a chunk has hot bits beyond its last sample")
	}
	low, high := Weight(0), Weight(MaxBatch)
	for i := range c.weights {
		w := binary.LittleEndian.Uint32(b[4*i:])
		if w < low || w > high {
			return nil, corrupt("sample %d of the chunk has weight %d, which no rank has", i, w)
		}
		c.weights[i] = w
	}
	var total uint64
	for i, w := range c.weights {
		total += uint64(h.repeated(w, c.hot.Has(uint64(i))))
	}
	if total != e.Total {
		return nil, corrupt("weights sum to %d instead of %d", total, e.Total)
	}
	return c, nil
}

// repeated returns the weight of a sample including repetition, if the sample is hot.
func (h *head) repeated(weight uint32, hot bool) uint32 {
	if hot {
		return weight * h.Repeat
	}
	return weight
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}
