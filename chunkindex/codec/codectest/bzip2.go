package codectest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Bzip2 compresses a piece to one bzip2 stream, with Huffman codes of nearly one length. The standard library has
// no writer.
func Bzip2(piece []byte) []byte {
	const block = 700_000 // of the 900,000 that a block may have: runs of four bytes grow by one
	w := &bitWriter{}
	w.bytes("BZh9")
	sum := uint32(0)
	for at := 0; at < len(piece); at += block {
		p := piece[at:min(at+block, len(piece))]
		one := bzip2Sum(p)
		sum = bits.RotateLeft32(sum, 1) ^ one
		w.bytes("1AY&SY")
		w.bytes(string(binary.BigEndian.AppendUint32(nil, one)))
		w.block(runs(p))
	}
	w.bytes("\x17rE8P\x90")
	w.bytes(string(binary.BigEndian.AppendUint32(nil, sum)))
	return w.padded()
}

// bzip2Sum is the CRC-32 of bzip2, which takes the highest bit first.
func bzip2Sum(p []byte) uint32 {
	sum := ^uint32(0)
	for _, b := range p {
		sum ^= uint32(b) << 24
		for range 8 {
			top := sum >> 31
			sum = sum<<1 ^ top*0x04c11db7
		}
	}
	return ^sum
}

// runs writes four to 259 equal bytes as four and a count.
func runs(p []byte) (out []byte) {
	for len(p) > 0 {
		n := 1
		for n < len(p) && n < 4+255 && p[n] == p[0] {
			n++
		}
		out = append(out, p[:min(n, 4)]...)
		if n >= 4 {
			out = append(out, byte(n-4))
		}
		p = p[n:]
	}
	return out
}

// bitWriter writes the highest bit first.
type bitWriter struct {
	out  []byte
	acc  uint64
	have int
}

func (w *bitWriter) bits(n int, value uint64) {
	for i := n - 1; i >= 0; i-- {
		w.acc = w.acc<<1 | value>>i&1
		if w.have++; w.have == 8 {
			w.out, w.acc, w.have = append(w.out, byte(w.acc)), 0, 0
		}
	}
}

func (w *bitWriter) bytes(s string) {
	for _, b := range []byte(s) {
		w.bits(8, uint64(b))
	}
}

func (w *bitWriter) padded() []byte {
	for w.have != 0 {
		w.bits(1, 0)
	}
	return w.out
}

// block writes a block behind its checksum.
func (w *bitWriter) block(p []byte) {
	last, first := sorted(p)
	w.bits(1, 0) // not randomized
	w.bits(24, uint64(first))
	var used [256]bool
	for _, b := range p {
		used[b] = true
	}
	alphabet := w.alphabet(&used)
	symbols := moved(last, alphabet)
	const tables, group = 2, 50
	w.bits(3, tables)
	selectors := (len(symbols) + group - 1) / group
	w.bits(15, uint64(selectors))
	w.bits(selectors, 0) // always the first table
	size := len(alphabet) + 2
	long := bits.Len(uint(size - 1))
	short := 1<<long - size // symbols whose codes have a bit less, so that no code is unused
	for range tables {
		w.bits(5, uint64(long-1))
		for s := range size {
			if s == short {
				w.bits(2, 2) // a bit more from here on
			}
			w.bits(1, 0)
		}
	}
	for _, s := range symbols {
		if s < short {
			w.bits(long-1, uint64(s))
		} else {
			w.bits(long, uint64(s+short))
		}
	}
}

// alphabet writes which bytes occur, and returns them in order.
func (w *bitWriter) alphabet(used *[256]bool) (all []byte) {
	for row := range 16 {
		w.bits(1, one(slices.Contains(used[16*row:16*row+16], true)))
	}
	for row := range 16 {
		if !slices.Contains(used[16*row:16*row+16], true) {
			continue
		}
		for i := 16 * row; i < 16*row+16; i++ {
			w.bits(1, one(used[i]))
			if used[i] {
				all = append(all, byte(i))
			}
		}
	}
	return all
}

func one(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// sorted is the Burrows-Wheeler transform: the last bytes of all rotations in order, and the place of the one that is not rotated.
func sorted(p []byte) (last []byte, first int) {
	twice := append(bytes.Clone(p), p...)
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(twice[a:a+len(p)], twice[b:b+len(p)]) })
	for i, at := range order {
		last = append(last, twice[at+len(p)-1])
		if at == 0 {
			first = i
		}
	}
	return last, first
}

// moved moves each byte to the front of the alphabet, and writes runs of its first one as numbers in base two, of the digits 1 and 2.
func moved(p, alphabet []byte) (symbols []int) {
	front := bytes.Clone(alphabet)
	run := 0
	flush := func() {
		for ; run > 0; run = (run - 1) / 2 {
			symbols = append(symbols, (run-1)%2)
		}
	}
	for _, b := range p {
		at := bytes.IndexByte(front, b)
		if at == 0 {
			run++
			continue
		}
		flush()
		symbols = append(symbols, at+1)
		copy(front[1:at+1], front[:at])
		front[0] = b
	}
	flush()
	return append(symbols, len(alphabet)+1)
}
