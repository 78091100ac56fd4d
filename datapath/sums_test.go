package datapath

import (
	"slices"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
)

// Progress reports of any size, some of them repeated, result in the right checksums of the bytes.
func TestSumsFollowTheRead(t *testing.T) {
	var ps []piece
	for offset, n := range map[int64]int{100: 10, 113: 1, 114: 7} { // there is a gap of 3 bytes
		ps = append(ps, piece{ext: chunkindex.Extent{Offset: offset, Length: int64(n)}, dst: make([]byte, n)})
	}
	slices.SortFunc(ps, func(a, b piece) int { return int(a.ext.Offset - b.ext.Offset) })
	for _, p := range ps {
		for i := range p.dst {
			p.dst[i] = byte(1 + i*3)
		}
	}
	for name, reports := range map[string][]int64{
		"none": nil, "once": {21}, "steps": {0, 3, 3, 10, 12, 13, 14, 21}, "a part": {4}, "past the end": {22},
	} {
		t.Run(name, func(t *testing.T) {
			r := &stretch{pieces: slices.Clone(ps)}
			for _, n := range reports {
				r.filled(n)
			}
			r.filled(21)
			for _, p := range r.pieces {
				if want := checksum(p.dst); p.crc != want {
					t.Errorf("got %x for %d bytes, want %x", p.crc, len(p.dst), want)
				}
			}
		})
	}
}
