//go:build !race

package shuffle

import (
	"fmt"
	"math"
	"testing"
)

// mixed is a dataset whose slot order is examined over many epochs.
type mixed struct {
	chunks    uint64
	each      uint64 // samples per chunk, or their mean if sizes differ
	lognormal bool
}

func (d mixed) String() string {
	if d.lognormal {
		return fmt.Sprintf("%d chunks of log-normal sizes", d.chunks)
	}
	return fmt.Sprintf("%d equal chunks", d.chunks)
}

// first returns the prefix sums of the chunks' sizes.
func (d mixed) first() []uint64 {
	if !d.lognormal {
		return equal(d.chunks, d.each)
	}
	k := newKey("log-normal sizes", d.chunks)
	counts := make([]uint64, d.chunks)
	for i := range counts {
		// The sum of twelve uniform numbers, minus 6, is approximately normal.
		z := -6.
		for j := range uint64(12) {
			z += float64(k.draw(uint64(i)*12+j, 1<<32)) / (1 << 32)
		}
		counts[i] = uint64(math.Ceil(float64(d.each) * math.Exp(z*.8-.32)))
	}
	return prefix(counts...)
}

// places counts over several epochs how often each sample falls in each of 16 parts of an epoch. It
// also correlates the sample's position in one epoch with its position in the next.
func places(p *Plan, epochs uint64) (chiSquare, correlation float64) {
	const bins = 16
	s := p.Samples()
	counts := make([][bins]float64, s)
	before, now := make([]float64, s), make([]float64, s)
	var order []uint64
	mean, variance := float64(s-1)/2, (float64(s)*float64(s)-1)/12
	for e := range epochs {
		order = p.Epoch(e).Append(order[:0], 0, s)
		var sum float64
		for t, x := range order {
			counts[x][mulDiv(uint64(t), bins, s)]++
			now[x] = float64(t) - mean
			sum += now[x] * before[x]
		}
		correlation += sum / float64(s) / variance / float64(epochs-1) // the first epoch has no previous epoch: its sum is 0
		before, now = now, before
	}
	share := binSizes(s, bins)
	for _, of := range counts {
		for b, n := range of {
			want := share[b] * float64(epochs)
			chiSquare += (n - want) * (n - want) / want / (bins - 1) / float64(s)
		}
	}
	return chiSquare, correlation
}

// TestSlot_EpochsAreIndependent: in each epoch a sample may be at any position, independent of its
// positions in earlier epochs. It uses more lanes than chunks, and fewer. Lanes have about fifty
// samples: in a shorter lane the missing sample of the last row would bias the result.
func TestSlot_EpochsAreIndependent(t *testing.T) {
	for _, d := range []mixed{
		{2, 3000, false},
		{5, 1200, false},
		{40, 150, false},
		{300, 20, false},
		{2, 3000, true},
		{5, 1200, true},
		{40, 150, true},
		{300, 20, true},
	} {
		p := mustPlan(t, Params{Shuffle: Slot, Window: 128, Seed: 3}, d.first())
		chi, correlation := places(p, 300)
		t.Logf("figure: %s: chi-square of places %.2f times its degrees of freedom, correlation of two epochs %.4f", d, chi, correlation)
		if chi < .9 || chi > 1.1 {
			t.Errorf("%s: got a chi-square of places of %.2f times its degrees of freedom, want 0.9 to 1.1", d, chi)
		}
		if math.Abs(correlation) > .02 {
			t.Errorf("%s: got a correlation of the places in two epochs of %.3f, want at most 0.02", d, correlation)
		}
	}
}

// TestSlotMixesClasses checks the variance of a class's share of a batch, for data sorted by ten
// classes. A random order has a variance of 1.
func TestSlotMixesClasses(t *testing.T) {
	for _, c := range []struct {
		chunks, each uint64
		want         [3]float64 // for batches of 32, 128 and 256
	}{
		{2, 1000, [3]float64{.76, .03, .03}},
		{64, 250, [3]float64{.76, .03, .03}},
		{128, 128, [3]float64{.76, .03, .03}},
		{130, 128, [3]float64{.85, .34, .65}},
		{640, 128, [3]float64{.95, .79, 1.55}},
	} {
		for i, batch := range []uint64{32, 128, 256} {
			got := classVariance(t, Params{Shuffle: Slot, Window: 128}, equal(c.chunks, c.each), batch)
			t.Logf("figure: %d chunks, batches of %d: variance %.2f", c.chunks, batch, got)
			if want := c.want[i]; math.Abs(got-want) > .1*want+.02 {
				t.Errorf("%d chunks of %d, batches of %d: got a variance of %.2f, want about %.2f", c.chunks, c.each, batch, got, want)
			}
		}
	}
}

// classVariance divides the stored samples into ten consecutive classes, and measures batches of 40
// epochs, each with its own seed.
func classVariance(t *testing.T, params Params, first chunkTable, batch uint64) float64 {
	const classes, seeds = 10, 40
	var sum, n float64
	var samples []uint64
	for seed := range uint64(seeds) {
		params.Seed = seed
		p := mustPlan(t, params, first)
		e, s := p.Epoch(seed), p.Samples()
		looks := min(s/batch, 64)
		for i := range looks {
			m := mulDiv(i, s/batch, looks)
			samples = e.Append(samples[:0], m*batch, (m+1)*batch)
			var count [classes]float64
			for _, x := range samples {
				count[mulDiv(x, classes, s)]++
			}
			for _, k := range count {
				d := k - float64(batch)/classes
				sum += d * d
				n++
			}
		}
	}
	return sum / n / (float64(batch) / classes * (1 - 1.0/classes))
}
