package placement

import (
	"encoding/binary"
	"math/bits"
)

// gamma is the odd constant of the golden ratio, as in SplitMix64.
const gamma = 0x9e3779b97f4a7c15

// with appends a word to a key, using the finalizer of SplitMix64 like docs/spec/order.md. It is
// frozen too.
func with(k, word uint64) uint64 {
	z := (k ^ word) + gamma
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// memberKey returns the key of an ID. It hashes the length and the bytes, eight bytes to a word,
// with the first byte lowest.
func memberKey(id string) uint64 {
	k := with(0, uint64(len(id)))
	for len(id) > 0 {
		var word [8]byte
		id = id[copy(word[:], id):]
		k = with(k, binary.LittleEndian.Uint64(word[:]))
	}
	return k
}

// chunkKey returns the key of a digest. It hashes the digest's four words.
func chunkKey(digest [32]byte) uint64 {
	var k uint64
	for i := 0; i < len(digest); i += 8 {
		k = with(k, binary.LittleEndian.Uint64(digest[i:]))
	}
	return k
}

// rendezvous returns the member with the smallest -log2(u)/weight, where u is a pseudorandom number
// from the chunk and the member. So each member wins in proportion to its weight, and a member that
// leaves moves no chunks between the others (Thaler and Ravishankar, IEEE/ACM Transactions on
// Networking 6(1), 1998; with weights as by Schindelhauer and Schomaker, SPAA 2005). Of equal
// results the one with the larger u wins, then the one with the lower index.
func (v *View) rendezvous(chunk uint64, skip func(i int) bool) int {
	if v.log == nil {
		return v.highest(chunk, skip)
	}
	best, bestU, bestLog := -1, uint64(0), uint64(0)
	for i, k := range v.keys {
		weight := v.members[i].Weight
		if weight == 0 {
			continue
		}
		u := with(k, chunk)
		log := v.log.minusLog2(u)
		if best >= 0 {
			// Compare log/weight with bestLog/bestWeight exactly.
			hi, lo := bits.Mul64(log, v.members[best].Weight)
			bestHi, bestLo := bits.Mul64(bestLog, weight)
			if hi > bestHi || hi == bestHi && (lo > bestLo || lo == bestLo && u <= bestU) {
				continue
			}
		}
		if skip == nil || !skip(i) {
			best, bestU, bestLog = i, u, log
		}
	}
	return best
}

// highest does the same as rendezvous for equal weights: the largest u has the smallest logarithm.
func (v *View) highest(chunk uint64, skip func(i int) bool) int {
	best, bestU := -1, uint64(0)
	for i, k := range v.keys {
		u := with(k, chunk)
		if best >= 0 && u <= bestU || v.members[i].Weight == 0 || skip != nil && skip(i) {
			continue
		}
		best, bestU = i, u
	}
	return best
}

// logBits is the number of fractional bits of a logarithm.
const logBits = 38

// logTable is log2(1 + i/256) for i = 0 to 256, rounded down to logBits bits.
type logTable [257]uint64

// newLogTable computes the table bit by bit: squaring a number doubles its logarithm.
func newLogTable() *logTable {
	t := &logTable{256: 1 << logBits}
	for i := range uint64(256) {
		x := (256 + i) << 55 // from 1 to 2, with 63 fractional bits
		for range logBits {
			t[i] <<= 1
			hi, lo := bits.Mul64(x, x)
			if hi >= 1<<63 { // 2 or more
				t[i]++
				x = hi
			} else {
				x = hi<<1 | lo>>63
			}
		}
	}
	return t
}

// minusLog2 returns -log2(u / 2^64) with logBits fractional bits, by linear interpolation between
// the entries of the table. It never increases with u, and is at least 1. u = 0 counts as 1.
func (t *logTable) minusLog2(u uint64) uint64 {
	u |= uint64(bits.LeadingZeros64(u) / 64)
	zeros := bits.LeadingZeros64(u)
	x := u << zeros
	i, part := x>>55&255, x>>23&(1<<32-1)
	return uint64(zeros+1)<<logBits - t[i] - (t[i+1]-t[i])*part>>32
}
