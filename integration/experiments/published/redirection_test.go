package published

import (
	"math/rand/v2"
	"testing"
)

func TestRedirectionGivesEachSampleOnceAndLoadsEachChunkOnce(t *testing.T) {
	for _, c := range []struct{ chunks, each, slots int }{{1, 1, 1}, {7, 5, 3}, {64, 16, 8}, {10, 4, 10}, {12, 3, 1}} {
		r := NewRedirection(c.chunks, c.each, c.slots)
		given := make([]int, c.chunks*c.each)
		loaded := make([]int, c.chunks)
		redirected := false
		for _, asked := range rand.New(rand.NewPCG(1, uint64(c.chunks))).Perm(len(given)) {
			answer, load := r.Ask(asked)
			if answer/c.each%c.slots != asked/c.each%c.slots {
				t.Fatalf("%+v: sample %d was answered with %d, of another slot", c, asked, answer)
			}
			redirected = redirected || answer != asked
			given[answer]++
			if load >= 0 {
				loaded[load]++
			}
		}
		for s, n := range given {
			if n != 1 {
				t.Errorf("%+v: sample %d: got it %d times, want once", c, s, n)
			}
		}
		for chunk, n := range loaded {
			if n != 1 {
				t.Errorf("%+v: chunk %d: got %d loads, want one", c, chunk, n)
			}
		}
		if r.Loads != c.chunks {
			t.Errorf("%+v: got %d loads, want %d", c, r.Loads, c.chunks)
		}
		if !redirected && c.chunks > c.slots {
			t.Errorf("%+v: no request was redirected", c)
		}
	}
}
