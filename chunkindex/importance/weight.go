package importance

import "math/bits"

// MaxBatch limits the number of positions in a global batch with losses. All ranks are below it.
const MaxBatch = 1 << 20

// ln2 is the natural logarithm of 2 in units of 2^-64.
const ln2 = 0xB17217F7D1CF79AB

// logBits is the number of fractional bits of a base-2 logarithm.
const logBits = 57

// Weight returns round(2^16 * ln(rank+10)), the weight of a sample whose loss has this rank in its
// global batch. The lowest loss has rank 0. This is SHADE's ln(rank+10) as an integer. Ranks from
// MaxBatch on have the weight of rank MaxBatch-1.
//
// The computation uses integers so that every machine gets the same result. It computes the base-2
// logarithm bit by bit, by squaring a 64-bit mantissa, and multiplies it by ln 2. The error is
// below 2^-30 of a unit. The tests show that no product is that close to a half.
func Weight(rank uint64) uint32 {
	x := min(rank, MaxBatch-1) + 10
	whole := bits.Len64(x) - 1
	mantissa := x << (63 - whole) // from 1 to 2, in units of 2^-63
	log := uint64(whole)
	for range logBits {
		hi, lo := bits.Mul64(mantissa, mantissa) // from 1 to 4, in units of 2^-126
		if hi>>63 == 1 {
			log, mantissa = log<<1|1, hi
		} else {
			log, mantissa = log<<1, hi<<1|lo>>63
		}
	}
	natural, _ := bits.Mul64(log, ln2) // natural logarithm in units of 2^-logBits
	const shift = logBits - 16
	return uint32((natural + 1<<(shift-1)) >> shift)
}

// weightTable returns the weights of all ranks below n.
func weightTable(n uint64) []uint32 {
	table := make([]uint32, n)
	for rank := range table {
		table[rank] = Weight(uint64(rank))
	}
	return table
}
