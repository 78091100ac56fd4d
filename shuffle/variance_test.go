//go:build !race

package shuffle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
)

// logNormal returns prefix sums of n chunks with log-normal sizes, c samples on average.
func logNormal(n, c uint64) []uint64 {
	r := rand.New(rand.NewPCG(n, c))
	first := make([]uint64, n+1)
	for i := range n {
		first[i+1] = first[i] + max(1, uint64(float64(c)*math.Exp(0.6*r.NormFloat64()-0.18)))
	}
	return first
}

// TestBatchVarianceIsThatOfEpochs compares the variance with measured batches of the order, for
// many seeds. In the long run it measures ten times as many batches of every size, and prints the
// table.
func TestBatchVarianceIsThatOfEpochs(t *testing.T) {
	long := os.Getenv("MILLRACE_LONG") != ""
	for _, params := range []Params{
		{Shuffle: Slot, Window: 128},
		{Shuffle: Slot, Window: 16},
		{Shuffle: Window, Window: 128},
		{Shuffle: Window, Window: 16},
		{Shuffle: Window, Window: 64, Strata: 16},
		{Shuffle: Full},
		{Shuffle: None},
	} {
		for _, n := range []uint64{1, 2, 5, 16, 40, 128, 130, 300, 640} {
			if !long && !slices.Contains([]uint64{1, 2, 40, 130}, n) {
				continue
			}
			for _, first := range [][]uint64{equal(n, 1+6400/n), logNormal(n, 1+6400/n)} {
				for _, batch := range []uint64{32, 128, 256} {
					if long || batch != 128 {
						checkVariance(t, mustPlan(t, params, first), batch, trials(400))
					}
				}
			}
		}
	}
}

// checkVariance compares the three values with measurements of batches. The tolerance is a tenth
// plus the statistical error.
func checkVariance(t *testing.T, p *Plan, batch, batches uint64) {
	t.Helper()
	v, ok := p.BatchVariance(batch)
	if !ok {
		t.Fatalf("%+v, batches of %d: no figure", p.params, batch)
	}
	what := fmt.Sprintf("%s %d/%d, %3d chunks, %d samples, batches of %3d", p.params.Shuffle, p.params.Window, p.params.Strata, p.chunks.len(), p.samples, batch)
	row := what + ":"
	want, chance := measuredVariance(t, p, batch, batches)
	for i, got := range []float64{v.Chunk, v.Ten, v.Hundred} {
		row += fmt.Sprintf("  %.3f (%.3f)", got, want[i])
		if math.Abs(got-want[i]) > 0.1*want[i]+3*chance[i]+1e-3 {
			t.Errorf("%s, sorting %d: got %.4f, want %.4f +- %.4f", what, i, got, want[i], chance[i])
		}
	}
	t.Log(row)
}

// measuredVariance measures batches of epochs of different seeds, and returns the mean and
// statistical error of each value.
func measuredVariance(t *testing.T, p *Plan, batch, batches uint64) (mean, chance [3]float64) {
	const looks = 10 // batches per epoch
	var square [3]float64
	var samples []uint64
	params, all, seeds := p.params, p.samples/batch, batches/looks
	for seed := range seeds {
		params.Seed = seed
		e := mustPlan(t, params, p.chunks).Epoch(seed)
		sets := p.sortings()
		var sum [3]float64
		for i := range uint64(looks) {
			m := (seed*looks + i) % all
			samples = e.Append(samples[:0], m*batch, (m+1)*batch)
			for k := range sets {
				s := &sets[k]
				for _, x := range samples {
					s.each(x, x+1, s.add)
				}
				sum[k] += s.distance(float64(batch)) / (float64(batch) * (1 - s.alike)) / looks
			}
		}
		for k, x := range sum {
			mean[k] += x / float64(seeds)
			square[k] += x * x / float64(seeds)
		}
	}
	for k := range mean {
		chance[k] = math.Sqrt(max(0, square[k]-mean[k]*mean[k]) / float64(seeds))
	}
	return mean, chance
}

// TestBatchVarianceIsANumber covers cases in which formulas could divide by zero: few chunks with
// few samples.
func TestBatchVarianceIsANumber(t *testing.T) {
	for _, name := range []string{None, Window, Slot, Full} {
		for n := range uint64(6 * 6 * 6 * 6) {
			p := mustPlan(t, Params{Shuffle: name, Window: n%6 + 1}, equal(n/6%6, n/36%6))
			v, ok := p.BatchVariance(n / 216)
			for _, got := range []float64{v.Chunk, v.Ten, v.Hundred} {
				if !(got >= 0 && got <= math.MaxFloat32) {
					t.Errorf("%+v, %d samples, batches of %d: got %+v, want numbers", p.params, p.samples, n/216, v)
				}
			}
			if want := p.samples > 1 && n/216 > 0; ok != want {
				t.Errorf("%+v, %d samples, batches of %d: got a figure %v, want %v", p.params, p.samples, n/216, ok, want)
			}
		}
	}
}

// TestBatchVarianceOfTheDefault pins the figures that users read to choose a shuffle: 512 chunks of
// 128 samples, batches of 256.
func TestBatchVarianceOfTheDefault(t *testing.T) {
	for _, c := range []struct {
		params Params
		want   BatchVariance
	}{
		{Params{Shuffle: Slot, Window: 32}, BatchVariance{7.35, 7.26, 6.93}},
		{Params{Shuffle: Slot, Window: 64}, BatchVariance{3.47, 3.47, 3.31}},
		{Params{Shuffle: Slot, Window: 128}, BatchVariance{1.50, 1.51, 1.47}},
		{Params{Shuffle: Slot, Window: 512}, BatchVariance{0.50, 0.50, 0.53}},
		{Params{Shuffle: Window, Window: 16}, BatchVariance{16.4, 16.3, 15.3}},
		{Params{Shuffle: Window, Window: 64}, BatchVariance{4.46, 4.41, 4.26}},
		{Params{Shuffle: Window, Window: 64, Strata: 16}, BatchVariance{4.46, 4.42, 4.27}},
		{Params{Shuffle: Window, Window: 512}, BatchVariance{1, 1, 1}},
		{Params{Shuffle: Full}, BatchVariance{1, 1, 1}},
		{Params{Shuffle: None}, BatchVariance{127.7, 252.4, 222.4}},
	} {
		got, _ := mustPlan(t, c.params, equal(512, 128)).BatchVariance(256)
		most := 0.01
		if c.params.Shuffle == Window { // without a formula
			most = 0.03
		}
		for _, f := range [][2]float64{{got.Chunk, c.want.Chunk}, {got.Ten, c.want.Ten}, {got.Hundred, c.want.Hundred}} {
			if math.Abs(f[0]-f[1]) > most*f[1] {
				t.Errorf("%+v: got %+v, want %+v within %v", c.params, got, c.want, most)
			}
		}
	}
}

// TestBatchVarianceOfSmallData checks that the default order mixes data of few chunks, sorted by
// class, better than independent draws.
func TestBatchVarianceOfSmallData(t *testing.T) {
	for _, first := range [][]uint64{equal(3, 1000), logNormal(3, 1000), equal(1, 1000), equal(40, 250)} {
		for batch, most := range map[uint64]float64{32: 0.80, 128: 0.30, 256: 0.30} {
			v, ok := mustPlan(t, Params{Shuffle: Slot, Window: 128}, first).BatchVariance(batch)
			if !ok || max(v.Chunk, v.Ten) > most {
				t.Errorf("%d chunks, batches of %d: got %+v, want at most %v by chunk and with 10 classes", len(first)-1, batch, v, most)
			}
		}
	}
}

// TestBatchVarianceCostsChunksNotSamples bounds the time and the memory for plans too large to
// examine sample by sample.
func TestBatchVarianceCostsChunksNotSamples(t *testing.T) {
	for _, params := range []Params{{Shuffle: Slot, Window: 128}, {Shuffle: Slot, Window: 16000}, {Shuffle: Window, Window: 128}, {Shuffle: None}, {Shuffle: Full}} {
		for _, batch := range []uint64{256, 1 << 24, 1 << 30} {
			p := mustPlan(t, params, equal(1<<16, 1<<15))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v, ok := p.BatchVariance(batch)
			runtime.ReadMemStats(&after)
			if got, want := after.TotalAlloc-before.TotalAlloc, uint64(32<<20); got > want || !ok || !(v.Worst() > 0) {
				t.Errorf("%+v, batches of %d: got %d bytes allocated and %+v, want at most %d and numbers", params, batch, got, v, want)
			}
		}
	}
}

// TestBatchVarianceIsFoundOnce: BatchVariance caches its result for a batch size, which a thousand
// ranks request when they open an epoch.
func TestBatchVarianceIsFoundOnce(t *testing.T) {
	params, first := Params{Shuffle: Window, Window: 4}, logNormal(640, 100)
	p := mustPlan(t, params, first)
	for _, batch := range []uint64{256, 32, 256, 1, 1 << 40} { // the last two sizes have no result, or a batch of all samples
		got, ok := p.BatchVariance(batch)
		want, known := mustPlan(t, params, first).BatchVariance(batch)
		if math.Abs(got.Worst()-want.Worst()) > 1e-9*want.Worst() || ok != known { // the order of additions varies
			t.Errorf("batches of %d: got %+v, %v after other sizes, want %+v, %v", batch, got, ok, want, known)
		}
		if n := testing.AllocsPerRun(10, func() { p.BatchVariance(batch) }); n != 0 {
			t.Errorf("batches of %d: %.0f allocations to ask again", batch, n)
		}
	}
}

// TestBatchVarianceOfDraws: with importance the variance counts draws, with a subset members.
func TestBatchVarianceOfDraws(t *testing.T) {
	first, totals, members := equal(300, 100), make([]uint64, 300), make([]uint64, 301)
	for i := range totals {
		totals[i] = 100 * (1 + uint64(i)%3)
		members[i+1] = members[i] + 100*(uint64(i)%2)
	}
	params := Params{Shuffle: Slot, Window: 128, Importance: snapshot}
	weighted, err := NewWeightedPlan(params, first, totals)
	if err != nil {
		t.Fatal(err)
	}
	drawn := mustPlan(t, Params{Shuffle: Slot, Window: 128}, newDraws(weighted, 0).First())
	subset, err := NewSubsetPlan(Params{Shuffle: Slot, Window: 128, Subset: "x"}, first, members)
	if err != nil {
		t.Fatal(err)
	}
	alone := mustPlan(t, Params{Shuffle: Slot, Window: 128}, members)
	for _, c := range [][2]*Plan{{weighted, drawn}, {subset, alone}} {
		got, ok := c[0].BatchVariance(256)
		if want, _ := c[1].BatchVariance(256); !ok || got != want || want.Chunk == 0 {
			t.Errorf("%+v: got %+v, %v, want %+v", c[0].params, got, ok, want)
		}
	}
}

// TestRankVarianceOfLocality pins the variance of a single rank's share: 512 chunks of 128 samples,
// 128 lanes, batches of 2048.
func TestRankVarianceOfLocality(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 128}, equal(512, 128))
	batching := Batching{Samples: p.samples, BatchSize: 2048, Tail: Short}
	for _, c := range []struct {
		ranks, homes uint64
		want         float64
	}{{64, 64, 15.3}, {64, 8, 1.95}, {8, 8, 15}, {8, 1, 1.5}} {
		got, ok := p.RankVariance(batching, c.ranks, c.homes)
		if !ok || math.Abs(got.Chunk-c.want) > 0.05*c.want {
			t.Errorf("%d ranks, %d homes: got %+v, want %v within 5 in 100", c.ranks, c.homes, got, c.want)
		}
	}
	alone, _ := p.RankVariance(batching, 1, 1)
	if want, _ := p.BatchVariance(2048); math.Abs(alone.Chunk-want.Chunk) > 0.1*want.Chunk || math.Abs(alone.Ten-want.Ten) > 0.1*want.Ten {
		t.Errorf("one rank: got %+v, want that of the batch, %+v", alone, want)
	}
	if _, ok := p.RankVariance(batching, 8, 9); ok {
		t.Error("more homes than ranks: got a figure, want none")
	}
	if _, ok := mustPlan(t, Params{Shuffle: Full}, equal(512, 128)).RankVariance(batching, 8, 8); ok {
		t.Error("an order without homes: got a figure, want none")
	}
}

func TestMixingWindow(t *testing.T) {
	for _, c := range []struct {
		params Params
		batch  uint64
		want   uint64
	}{
		{Params{Shuffle: Slot, Window: 32}, 256, 128},
		{Params{Shuffle: Slot, Window: 128}, 2048, 512},
		{Params{Shuffle: Slot, Window: 1}, 256, 128},
		{Params{Shuffle: Window, Window: 64}, 256, 256},
		{Params{Shuffle: Window, Window: 16, Strata: 8}, 256, 256},
		{Params{Shuffle: Slot, Window: 512}, 256, 0}, // no larger window is tried
		{Params{Shuffle: Slot, Window: 512}, 4096, 1024},
		{Params{Shuffle: None}, 256, 0},
		{Params{Shuffle: Full}, 256, 0},
	} {
		p := mustPlan(t, c.params, equal(512, 128))
		got := p.MixingWindow(c.batch, 2)
		if got != c.want {
			t.Errorf("%+v, batches of %d: got %d, want %d", c.params, c.batch, got, c.want)
		}
	}
}
