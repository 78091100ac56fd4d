//go:build !race

package simulate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// TestFormula checks the formula for D = 1.2 million samples, a store of 1,000 samples per second
// and nodes that train 300 per second: the knee is at 3.33 nodes.
func TestFormula(t *testing.T) {
	f := Formula{Samples: 1.2e6, Nodes: 2, Train: 300, Storage: 1000, Link: 500}
	for _, c := range []struct {
		nodes, cached, moved       float64
		stored, distributed, local time.Duration
	}{
		{2, 1, 0, 2000 * time.Second, 2000 * time.Second, 2000 * time.Second}, // D/(pV)
		{8, 1, 0, 1200 * time.Second, 500 * time.Second, 500 * time.Second},   // D/R
		{8, .5, 0, 1200 * time.Second, 731250 * time.Millisecond, 600 * time.Second},
		{8, .5, .1, 1200 * time.Second, 731250 * time.Millisecond, 615 * time.Second},
	} {
		f.Nodes, f.Cached, f.Moved = c.nodes, c.cached, c.moved
		for i, pair := range [][2]time.Duration{{f.Stored(), c.stored}, {f.Distributed(), c.distributed}, {f.Local(), c.local}} {
			if (pair[0] - pair[1]).Abs() > time.Millisecond {
				t.Errorf("%+v: term %d: got %v, want %v", c, i, pair[0], pair[1])
			}
		}
	}
	if got := f.Knee(); math.Abs(got-10./3) > 1e-9 {
		t.Errorf("got a knee at %v nodes, want R/V = 10/3", got)
	}
	f.Nodes, f.Cached, f.Moved = 4, 1, 0
	f.Link = f.Enough()
	if a, b := f.Distributed(), seconds(f.Samples/(f.Nodes*f.Train)); (a - b).Abs() > time.Millisecond {
		t.Errorf("with the link that is enough: got %v, want the time of training, %v", a, b)
	}
}

// TestFormulaAgreesWithTheModel checks cases in which waits do not add up: a store-bound fleet does
// not scale, a shared cache is limited by its links, and locality is limited by the ranks.
func TestFormulaAgreesWithTheModel(t *testing.T) {
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
			f := r.Formula()
			want := []time.Duration{f.Stored(), f.Distributed(), f.Local()}[i]
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
		{link, []string{"Link: it is the bottleneck", "--no-cluster --share locality", "Yang and Cong's model, which adds times that overlap here, D = 32768 samples, p = 4", "locality pays with links below", "p = R/V"}},
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
	if text := strings.Join(Advice(d, []Result{predict(t, d, s)}), "\n"); strings.Contains(text, "Yang") {
		t.Errorf("gateways that share nothing: got\n%s\nwant no word of a fleet", text)
	}
}
