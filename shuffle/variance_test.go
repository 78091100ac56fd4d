package shuffle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// logNormal returns prefix sums of n chunks of log-normal sizes, c samples on average.
func logNormal(n, c uint64) []uint64 {
	r := rand.New(rand.NewPCG(n, c))
	first := make([]uint64, n+1)
	for i := range n {
		first[i+1] = first[i] + max(1, uint64(float64(c)*math.Exp(0.6*r.NormFloat64()-0.18)))
	}
	return first
}

// TestBatchVarianceIsThatOfEpochs compares with batches of the order itself, of many seeds. In the long run it looks at
// ten times as many batches of every size, and prints the table.
func TestBatchVarianceIsThatOfEpochs(t *testing.T) {
	long := os.Getenv("MILLRACE_LONG") != ""
	for _, params := range []Params{
		{Shuffle: Slot, Window: 128}, {Shuffle: Slot, Window: 16}, {Shuffle: Window, Window: 128}, {Shuffle: Window, Window: 16},
		{Shuffle: Window, Window: 64, Strata: 16}, {Shuffle: Full}, {Shuffle: None},
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

// checkVariance holds the three figures to a tenth of what so many batches show, and to what chance leaves open of that.
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

// measuredVariance looks at batches of epochs of different seeds, and returns what chance leaves open of each figure.
func measuredVariance(t *testing.T, p *Plan, batch, batches uint64) (mean, chance [3]float64) {
	const looks = 10 // of an epoch
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
