package published

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLocalityGivesEverySampleOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, learners := range []int{1, 2, 5, 16} {
		l := NewLocality(random.Perm(1000), learners)
		batch := random.Perm(1000)[:203]
		shares, moved, messages := l.Batch(batch)
		foreign := 0
		for r, share := range shares {
			if want := 203*(r+1)/learners - 203*r/learners; len(share) != want {
				t.Errorf("%d learners: learner %d got %d samples, want %d", learners, r, len(share), want)
			}
			for _, x := range share {
				if int(l.owner[x]) != r {
					foreign++
				}
			}
		}
		if foreign != moved {
			t.Errorf("%d learners: got %d samples of others, want the %d that were moved", learners, foreign, moved)
		}
		if messages > learners-1 {
			t.Errorf("%d learners: got %d messages, want at most %d", learners, messages, learners-1)
		}
		got, want := slices.Sorted(slices.Values(slices.Concat(shares...))), slices.Sorted(slices.Values(batch))
		if !slices.Equal(got, want) {
			t.Errorf("%d learners: got samples %v, want %v", learners, got, want)
		}
	}
}
