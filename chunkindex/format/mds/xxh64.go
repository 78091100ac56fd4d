package mds

import (
	"encoding/binary"
	"math/bits"
)

// xxh64 implements XXH64 of Yann Collet's xxHash specification (version 0.1.1) with seed 0, the
// default hash of MDS datasets.
type xxh64 struct {
	lanes [4]uint64
	held  [32]byte // bytes of an incomplete stripe: the first count%32 are valid
	count uint64
}

const (
	prime1 uint64 = 11400714785074694791
	prime2 uint64 = 14029467366897019727
	prime3 uint64 = 1609587929392839161
	prime4 uint64 = 9650029242287828579
	prime5 uint64 = 2870177450012600261
)

func newXXH64() *xxh64 {
	x := &xxh64{}
	x.Reset()
	return x
}

func (x *xxh64) Reset() {
	p := prime1 // a variable, because constant expressions must not overflow
	*x = xxh64{lanes: [4]uint64{p + prime2, prime2, 0, -p}}
}

func (*xxh64) Size() int      { return 8 }
func (*xxh64) BlockSize() int { return 32 }

func (x *xxh64) Write(p []byte) (int, error) {
	n := len(p)
	if at := int(x.count % 32); at > 0 {
		m := copy(x.held[at:], p)
		p = p[m:]
		if at+m == 32 {
			x.stripe(x.held[:])
		}
	}
	x.count += uint64(n)
	for ; len(p) >= 32; p = p[32:] {
		x.stripe(p)
	}
	if len(p) > 0 {
		copy(x.held[:], p)
	}
	return n, nil
}

func (x *xxh64) stripe(p []byte) {
	for i := range x.lanes {
		x.lanes[i] = round(x.lanes[i], binary.LittleEndian.Uint64(p[8*i:]))
	}
}

func round(lane, in uint64) uint64 { return bits.RotateLeft64(lane+in*prime2, 31) * prime1 }

// Sum appends the hash of the bytes written so far, in big-endian order.
func (x *xxh64) Sum(b []byte) []byte {
	h := prime5
	if x.count >= 32 {
		h = bits.RotateLeft64(x.lanes[0], 1) + bits.RotateLeft64(x.lanes[1], 7) + bits.RotateLeft64(x.lanes[2], 12) + bits.RotateLeft64(x.lanes[3], 18)
		for _, lane := range x.lanes {
			h = (h^round(0, lane))*prime1 + prime4
		}
	}
	h += x.count
	p := x.held[:x.count%32]
	for ; len(p) >= 8; p = p[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(p)), 27)*prime1 + prime4
	}
	if len(p) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(p))*prime1, 23)*prime2 + prime3
		p = p[4:]
	}
	for _, c := range p {
		h = bits.RotateLeft64(h^uint64(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return binary.BigEndian.AppendUint64(b, h^h>>32)
}
