package shuffle

import (
	"iter"
	"math/bits"
)

// gamma is the odd constant of the golden ratio, as in SplitMix64.
const gamma = 0x9e3779b97f4a7c15

// mix is the finalizer of SplitMix64: a bijection of 64-bit words.
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// key identifies one stream of words. Keys of different purposes or numbers are unrelated.
type key uint64

// newKey returns the key for a purpose and numbers.
func newKey(purpose string, numbers ...uint64) key {
	k := key(0).with(uint64(len(purpose)))
	for word := range packed(purpose) {
		k = k.with(word)
	}
	for _, x := range numbers {
		k = k.with(x)
	}
	return k
}

// packed yields the bytes of a string, eight to a word, the first byte lowest.
func packed(s string) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for len(s) > 0 {
			var word uint64
			n := min(8, len(s))
			for i := range n {
				word |= uint64(s[i]) << (8 * i)
			}
			if !yield(word) {
				return
			}
			s = s[n:]
		}
	}
}

// with appends one number to a key.
func (k key) with(x uint64) key {
	return key(mix((uint64(k) ^ x) + gamma))
}

// word returns word c of the key's stream, which is SplitMix64 seeded with the key.
func (k key) word(c uint64) uint64 {
	return mix(uint64(k) + (c+1)*gamma)
}

// draw returns draw number i of the key's stream, uniform below n and without bias. A word that
// would favor small results is replaced by the word 2^32 positions later. i is below 2^32, n above
// 0.
func (k key) draw(i, n uint64) uint64 {
	hi, lo := bits.Mul64(k.word(i), n)
	if lo < n {
		for floor := -n % n; lo < floor; {
			i += 1 << 32
			hi, lo = bits.Mul64(k.word(i), n)
		}
	}
	return hi
}
