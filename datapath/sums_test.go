package datapath

import (
	"slices"
	"testing"
)

// Reports in any steps, repeated, or from the start again give the sums of the bytes that are there at the end.
func TestSumsFollowTheRead(t *testing.T) {
	bufs := [][]byte{make([]byte, 10), {}, make([]byte, 7)}
	fill := func(from int) {
		for _, b := range bufs {
			for i := range b {
				b[i] = byte(from + i*3)
			}
		}
	}
	for name, reports := range map[string][]int64{
		"none": nil, "once": {17}, "steps": {0, 3, 3, 10, 12, 17}, "a part": {4}, "past the end": {18},
	} {
		t.Run(name, func(t *testing.T) {
			fill(1)
			s := newSums(bufs)
			for _, n := range reports {
				s.filled(n)
			}
			fill(2) // the read begins again
			s.filled(0)
			for _, n := range reports {
				s.filled(n)
			}
			if got, want := s.finish(), []uint32{checksum(bufs[0]), 0, checksum(bufs[2])}; !slices.Equal(got, want) {
				t.Errorf("got %x, want %x", got, want)
			}
		})
	}
}
