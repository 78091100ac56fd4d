//go:build !race

package clustersim

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/shuffle"
)

// TestOneOfEightIsSick runs a cluster of eight with one faulty gateway, which is alive and answers
// hellos. Each other gateway detects the fault by three requests, which may be for three batches.
// From then on the faulty gateway must cost no more than a dead one. The epoch is long enough that
// three batches per gateway are less than a thousandth of all, and that hellos alone could readmit
// the faulty gateway.
func TestOneOfEightIsSick(t *testing.T) {
	d := evenData(t, 128, 384)
	plans := []shuffle.Params{{Shuffle: shuffle.Slot, Window: 32, Seed: 3}}
	if os.Getenv("MILLRACE_LONG") != "" {
		plans = append(plans, shuffle.Params{Shuffle: shuffle.Window, Window: 16, Seed: 3})
	}
	for _, params := range plans {
		h := Job(d, params, 8, 1)
		well := right(t, h)
		t.Logf("figure: %s, eight gateways, all well: %v; %d store reads", params.Shuffle, well.Times(), well.Requests())
		for _, s := range Sicknesses() {
			ill := right(t, h.Sick(0, s))
			felt(t, params.Shuffle+", "+s.Name, ill, well)
			ratio := func(of func(Times) time.Duration) float64 {
				return float64(of(ill.Times())) / float64(of(well.Times()))
			}
			p999 := ratio(func(t Times) time.Duration { return t.P999 })
			t.Logf("figure: %s, one of eight %s: %v; p99.9 %.2f x of healthy; %d store reads; %v", params.Shuffle, s.Name, ill.Times(), p999, ill.Requests(), ill.Ended)
			if p99 := ratio(func(t Times) time.Duration { return t.P99 }); p99 > 1.3 {
				t.Errorf("%s, %s: p99 %.2f x of healthy, want at most 1.3", params.Shuffle, s.Name, p99)
			}
			if p999 > 1.3 {
				t.Errorf("%s, %s: p99.9 %.2f x of healthy, want at most 1.3", params.Shuffle, s.Name, p999)
			}
			if steps := ratio(func(t Times) time.Duration { return t.Steps }); steps > 2.5 {
				t.Errorf("%s, %s: the steps took %.2f x of healthy, want at most 2.5", params.Shuffle, s.Name, steps)
			}
			if got, most := float64(ill.Requests()), 1.25*float64(well.Requests()); got > most {
				t.Errorf("%s, %s: %v store reads, want at most %v", params.Shuffle, s.Name, got, most)
			}
			if got, want := ill.Ended["bytes"], well.Ended["bytes"]; got != want {
				t.Errorf("%s, %s: got %d batches, want %d", params.Shuffle, s.Name, got, want)
			}
		}
	}
}

// TestAllAreSick cuts all gateways off from the store for a while. No gateway is then worse than
// the others, so none is ejected, their chunks are served, and nothing is read again afterwards.
func TestAllAreSick(t *testing.T) {
	h := Job(evenData(t, 128, 64), shuffle.Params{Shuffle: shuffle.Slot, Window: 32, Seed: 3}, 8, 1)
	h.Gateways = slices.Clone(h.Gateways)
	for i := range h.Gateways {
		h.Gateways[i].Fetchers = 1 // otherwise everything is read before the fault begins
	}
	well := right(t, h)
	all := *h
	all.Kind, all.Ranks = Wild, slices.Clone(h.Ranks)
	for i := range h.Gateways {
		all.Faults = append(all.Faults, Fault{What: StoreCut, At: 100 * time.Millisecond, For: 4 * time.Second, Machine: i})
	}
	for i := range all.Ranks {
		all.Ranks[i].Limit = time.Minute
	}
	ill := right(t, &all)
	t.Logf("figure: no store for 4 s: %v; %d store reads, %d without; %v", ill.Times(), ill.Requests(), well.Requests(), ill.Ended)
	if got, most := float64(ill.Requests()), 1.1*float64(well.Requests()); got > most { // allows for hedged reads that were in transit
		t.Errorf("got %v store reads, want at most %v", got, most)
	}
}
