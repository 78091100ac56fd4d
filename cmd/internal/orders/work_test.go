package orders

import (
	"slices"
	"testing"
)

func TestChoose_SpreadsBlocks(t *testing.T) {
	for _, c := range []struct {
		of, n uint64
		want  []uint64
	}{
		{10, 3, []uint64{0, 3, 6}},
		{3, 10, []uint64{0, 1, 2}},
		{7, 1, []uint64{0}},
	} {
		if got := choose(c.of, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d: got %v, want %v", c.n, c.of, got, c.want)
		}
	}
}
