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

// head is a snapshot's header.
type head struct {
	order      uint32 // version of the sample order that mapped positions to samples
	generation string
	base       string // digest of the snapshot that provided the weights of unreported samples; empty: none
	epoch      uint64
	batchSize  uint64
	samples    uint64
	chunks     uint64
	hot        uint64 // hot samples
	total      uint64 // sum of all weights, including repetition
	positions  uint64 // number of positions with reported losses
	conflicts  uint64 // number of positions with several losses
	hotShare   uint32 // in millionths
	repeat     uint32
	plan       uint32 // bytes
	planCRC    uint32
	tableCRC   uint32
}

func (h *head) encode() ([]byte, error) {
	b := make([]byte, 0, snapshotHeader)
	b = append(b, snapshotMagic...)
	b = binary.LittleEndian.AppendUint32(b, snapshotVersion)
	b = binary.LittleEndian.AppendUint32(b, h.order)
	for _, digest := range []string{h.generation, h.base} {
		raw := make([]byte, 32)
		if digest != "" {
			var err error
			if raw, err = hex.DecodeString(digest); err != nil {
				return nil, err
			}
		}
		b = append(b, raw...)
	}
	for _, v := range []uint64{h.epoch, h.batchSize, h.samples, h.chunks, h.hot, h.total, h.positions, h.conflicts} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	for _, v := range []uint32{h.hotShare, h.repeat, h.plan, h.planCRC, h.tableCRC, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli())), nil
}

// decodeHead decodes a header and checks all that the header itself determines.
func decodeHead(b []byte) (*head, error) {
	if len(b) != snapshotHeader || string(b[:8]) != snapshotMagic {
		return nil, corrupt("not a snapshot of weights")
	}
	if crc32.Checksum(b[:snapshotHeader-4], castagnoli()) != binary.LittleEndian.Uint32(b[snapshotHeader-4:]) {
		return nil, corrupt("header: checksum is wrong")
	}
	half := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[80+8*i:]) }
	if v := half(8); v != snapshotVersion {
		return nil, fmt.Errorf("snapshot version %d: %w", v, ErrVersion)
	}
	h := &head{
		order: half(12), generation: hex.EncodeToString(b[16:48]), base: hex.EncodeToString(b[48:80]),
		epoch: word(0), batchSize: word(1), samples: word(2), chunks: word(3),
		hot: word(4), total: word(5), positions: word(6), conflicts: word(7),
		hotShare: half(144), repeat: half(148), plan: half(152), planCRC: half(156), tableCRC: half(160),
	}
	if h.base == strings.Repeat("0", 64) {
		h.base = ""
	}
	switch {
	case h.samples == 0 || h.samples > maxSamples || h.chunks == 0 || h.chunks > maxChunks:
		return nil, corrupt("header: invalid numbers: %d samples in %d chunks", h.samples, h.chunks)
	case h.batchSize == 0 || h.batchSize > MaxBatch || h.plan == 0 || h.plan > maxPlan:
		return nil, corrupt("header: invalid numbers: batches of %d, plan of %d bytes", h.batchSize, h.plan)
	case h.repeat == 0 || h.repeat > maxRepeat || h.hotShare > millionth || h.hot != hotSamples(h.samples, h.hotShare):
		return nil, corrupt("header: invalid numbers: %d hot samples, repeated %d times", h.hot, h.repeat)
	case h.positions == 0 || h.conflicts > h.positions || half(164) != 0 || half(168) != 0 || h.order == 0:
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
func (h *head) tableOffset() int64 { return snapshotHeader + int64(h.plan) }
func (h *head) blocks() int64      { return h.tableOffset() + chunkRecord*int64(h.chunks) }

// blockSize returns the length of the block of n samples, which has one weight and one bit per
// sample.
func blockSize(n uint64) int64 { return int64(4*n + (n+7)/8) }

// fits checks that a header and an object size match a dataset, before any allocation or download.
// first contains the prefix sums of the dataset's chunk sample counts.
func (h *head) fits(first []uint64, size int64) error {
	if h.chunks != uint64(len(first)-1) || h.samples != first[len(first)-1] {
		return corrupt("it has %d samples in %d chunks, but the dataset has %d in %d", h.samples, h.chunks, first[len(first)-1], len(first)-1)
	}
	end := h.blocks()
	for i := range h.chunks {
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

// chunkEntry is a row of the chunk table.
type chunkEntry struct {
	total   uint64 // sum of the weights of the chunk's samples, including repetition
	samples uint32
	crc     uint32 // CRC-32C of the chunk's block
}

func (e chunkEntry) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, e.total)
	b = binary.LittleEndian.AppendUint32(b, e.samples)
	return binary.LittleEndian.AppendUint32(b, e.crc)
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
	n := uint64(e.samples)
	if int64(len(b)) != blockSize(n) || crc32.Checksum(b, castagnoli()) != e.crc {
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
	if total != e.total {
		return nil, corrupt("weights sum to %d instead of %d", total, e.total)
	}
	return c, nil
}

// repeated returns the weight of a sample including repetition, if the sample is hot.
func (h *head) repeated(weight uint32, hot bool) uint32 {
	if hot {
		return weight * h.repeat
	}
	return weight
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}
