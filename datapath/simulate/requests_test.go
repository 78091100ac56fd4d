//go:build !race

package simulate

import (
	"math"
	"testing"

	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// TestCountRequests_AgreesWithEpochs compares the counts with simulated epochs of a store that is
// read one chunk at a time. They agree within a tenth plus a tenth of the chunks.
func TestCountRequests_AgreesWithEpochs(t *testing.T) {
	d, err := Uniform(400*64, 64, 32<<10)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []shuffle.Params{{Shuffle: shuffle.Slot, Window: 32}, {Shuffle: shuffle.Window, Window: 16}, {Shuffle: shuffle.None}, {Shuffle: shuffle.Full}} {
		plan, err := shuffle.NewPlan(order, d.First)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []float64{0.3, 0.5, 0.8, 1.6} {
			s := Setting{
				Order: order, BatchSize: 256, Epochs: 2, Ranks: 2, Rate: 3000, ReadAhead: 2, Skew: 1, Gateways: 1, Policy: policy.Plan,
				CacheSize: int64(part * float64(d.Bytes())), Fetchers: 12, PartSize: 64 * 32 << 10, StoreRate: 1e9, FirstByte: 5e6,
			}
			got := CountRequests(plan, d, s.BatchSize, s.CacheSize, s.PartSize)
			r, err := Run(t.Context(), d, s)
			if err != nil {
				t.Fatal(err)
			}
			near := func(got uint64, want int64) bool { return math.Abs(float64(got)-float64(want)) <= 0.1*float64(want)+40 }
			if order.Shuffle == shuffle.Slot { // where lanes begin and end, a few samples of a chunk are read separately
				r.Epochs[0].Reads -= min(5*int64(order.Window), r.Epochs[0].Reads-int64(got.Cold))
			}
			if cold, later := r.Epochs[0].Reads, r.Epochs[1].Reads; !got.Known || !near(got.Cold, cold) || !near(got.Later, later) {
				t.Errorf("%s, cache of %v of the data: got %+v, want %d and then %d", order.Shuffle, part, got, cold, later)
			}
		}
	}
}

func TestCountRequests_UnknownWithSmallCache(t *testing.T) {
	d, err := Uniform(400*64, 64, 32<<10)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Slot, Window: 128}, d.First)
	if err != nil {
		t.Fatal(err)
	}
	if got := CountRequests(plan, d, 256, d.Bytes()/8, 16<<20); got.Known || got.Cold == 0 {
		t.Errorf("a cache smaller than the order requires: got %+v, want the cold epoch only", got)
	}
	d.Chunks[0].Extents, d.Chunks[1].Stored = 64, 1<<20 // the first chunk has 64 objects, and the second has two parts of half a mebibyte
	if got, want := CountRequests(plan, d, 256, 0, 512<<10).Cold, plan.Reads()+63+1+398*3; got != want {
		t.Errorf("chunks of several reads: got %d requests, want %d", got, want)
	}
}
