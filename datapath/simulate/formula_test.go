//go:build !race

package simulate

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// formula returns the epoch time by the model of Yang and Cong (Accelerating Data Loading in Deep
// Neural Network Training, HiPC 2019): the ranks' time, or the store's and the links' times one after
// the other if they are longer. stored is the part of the data that comes from the store, moved the
// part that crosses the links.
func formula(d *Data, s *Setting, stored, moved float64) time.Duration {
	store, link := 0.0, 0.0
	if s.StoreRate > 0 {
		store = stored * float64(d.Bytes()) / s.StoreRate
	}
	if s.LinkRate > 0 {
		link = moved * float64(d.Bytes()) / (float64(s.Gateways) * s.LinkRate)
	}
	return seconds(max(float64(d.Samples())/s.Rate, store+link))
}

// TestEpochsTakeTheTimeOfTheFormula checks cases in which waits do not add up: a store-bound fleet does
// not scale, a shared cache is limited by its links, and locality is limited by the ranks.
func TestEpochsTakeTheTimeOfTheFormula(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	for _, p := range []int{2, 4, 8} {
		cold := fleet(d, p, .8)
		cold.Rate, cold.LinkRate = 5e4*float64(p), 0
		warm := fleet(d, p, 2)
		warm.Rate, warm.LinkRate, warm.RanksNear = 1e6*float64(p), 10e6, true
		near := warm
		near.Sharing, near.Alone = shuffle.Locality, true // each gateway's cache holds the chunks of its ranks
		for i, s := range []Setting{cold, warm, near} {
			r := predict(t, d, s)
			far := float64(p-1) / float64(p)
			want := []time.Duration{formula(d, &s, 1, 0), formula(d, &s, 0, far), formula(d, &s, 0, r.Moved)}[i]
			e := r.Later()
			if i == 0 {
				e = &r.Epochs[0]
			}
			if off := float64(e.Time)/float64(want) - 1; off < -.02 || off > .16 && i < 2 || i == 2 && e.Time > want+60*time.Millisecond {
				t.Errorf("%d gateways, case %d: got %v, want about %v", p, i, e.Time, want)
			}
		}
	}
}

func TestAdviceForFleets(t *testing.T) {
	d := uniform(t, 512*64, 64, 4096)
	s := fleet(d, 4, 2)
	s.Rate, s.LinkRate = 1e6, 20e6
	link := predict(t, d, s)
	s.Ranks, s.BatchSize = 64, 512
	many := predict(t, d, s)
	s = fleet(d, 6, .5)
	small := predict(t, d, s)
	for i, c := range []struct {
		r    Result
		want []string
	}{
		{link, []string{"Link: it is the bottleneck", "--no-cluster --share locality", "of all bytes delivered between gateways"}},
		{many, []string{"requires a home for each of the 64 ranks"}},
		{small, []string{"Fleet: a cache of", "would hold all"}},
	} {
		text := strings.Join(Advice(d, []Result{c.r}), "\n")
		for _, want := range c.want {
			if !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
				t.Errorf("case %d: got\n%s\nwant %q in it", i, text, want)
			}
		}
	}
	s.Alone = true
	if text := strings.Join(Advice(d, []Result{predict(t, d, s)}), "\n"); strings.Contains(text, "Fleet") {
		t.Errorf("gateways that share nothing: got\n%s\nwant no word of a fleet", text)
	}
}
