package shuffle

import (
	"math"
	"slices"
	"testing"
)

// TestBatchVariance_OfSmallOrders compares the variance with values computed by hand.
func TestBatchVariance_OfSmallOrders(t *testing.T) {
	const byChunk = 0 // index of the value by chunk; index 1 is the value of 10 classes
	for _, c := range []struct {
		name     string
		params   Params
		first    []uint64
		batch    uint64
		figure   int
		distance float64 // squared distance from the shares of the batch, averaged over all batches
		alike    float64 // probability that two independent samples belong to one class
	}{
		{"one permutation", Params{Shuffle: Full}, equal(5, 2), 4, byChunk, 4 * .8 * 6 / 9, 1. / 5},
		{"chunks of unequal size", Params{Shuffle: None}, prefix(1, 9), 2, byChunk, (1.28 + 4*.08) / 5, .82},
		{"one chunk with samples", Params{Shuffle: None}, prefix(0, 8, 0), 4, byChunk, 8, .5},
		{"a row and a sample", Params{Shuffle: Slot, Window: 4}, equal(4, 2), 5, byChunk, .75, .25},
		{"a batch that begins in a row", Params{Shuffle: Slot, Window: 4}, equal(4, 2), 3, byChunk, 1.25, .25},
		{"lanes of one class", Params{Shuffle: Slot, Window: 4}, equal(1, 8), 5, byChunk, .5, .5},
		{"three rows and a sample", Params{Shuffle: Slot, Window: 2}, equal(1, 12), 7, byChunk, .5, .5},
		{"batches that begin everywhere in a row", Params{Shuffle: Slot, Window: 4}, equal(1, 400), 3, byChunk, 5. / 6, .5},
		{"one lane of four chunks", Params{Shuffle: Slot, Window: 1}, equal(4, 2), 4, byChunk, 3, .25},
		{"nearly all of one lane", Params{Shuffle: Slot, Window: 1}, equal(2, 3), 5, byChunk, .5, .5},
		{"a lane with classes of two chunks", Params{Shuffle: Slot, Window: 1}, equal(20, 2), 5, 1, 5 + 2*(2+8./19) - 2.5, .1},
	} {
		v, ok := mustPlan(t, c.params, c.first).BatchVariance(c.batch)
		got, want := []float64{v.Chunk, v.Ten}[c.figure], c.distance/(float64(c.batch)*(1-c.alike))
		if !ok || !(math.Abs(got-want) <= 1e-9) { // NaN is wrong too
			t.Errorf("%s: got %v, want %v", c.name, got, want)
		}
	}
}

// TestBatchVariance_OfOneSample: a batch of one sample varies like an independent draw, in any
// order.
func TestBatchVariance_OfOneSample(t *testing.T) {
	for _, params := range []Params{{Shuffle: None}, {Shuffle: Full}, {Shuffle: Window, Window: 2}, {Shuffle: Window, Window: 4, Strata: 2}, {Shuffle: Slot, Window: 3}} {
		p := mustPlan(t, params, equal(20, 5))
		got, ok := p.BatchVariance(1)
		if !ok || !(math.Abs(got.Chunk-1)+math.Abs(got.Ten-1)+math.Abs(got.Hundred-1) <= 1e-9) {
			t.Errorf("%+v: got %+v, want 1", params, got)
		}
		if params.Shuffle != Slot {
			continue
		}
		for _, first := range [][]uint64{p.chunks, {0, 1, 2}} {
			p := mustPlan(t, params, first)
			got, ok := p.RankVariance(Batching{Samples: p.samples, BatchSize: 1}, 1, 1)
			if !ok || !(math.Abs(got.Chunk-1)+math.Abs(got.Ten-1)+math.Abs(got.Hundred-1) <= 1e-9) {
				t.Errorf("%+v, the share of one rank: got %+v, want 1", params, got)
			}
		}
	}
}

// TestBatchVariance_OfAWindowThatHoldsAll: a window that holds all chunks has the variance of a
// full order, and variance 0 if a batch is the whole epoch.
func TestBatchVariance_OfAWindowThatHoldsAll(t *testing.T) {
	full := mustPlan(t, Params{Shuffle: Full}, equal(7, 11))
	for _, batch := range []uint64{1, 5, 30, 76} {
		want, _ := full.BatchVariance(batch)
		if got, ok := mustPlan(t, Params{Shuffle: Window, Window: 7}, equal(7, 11)).BatchVariance(batch); !ok || got != want {
			t.Errorf("batches of %d: got %+v, want %+v", batch, got, want)
		}
	}
	for _, params := range []Params{{Shuffle: None}, {Shuffle: Full}, {Shuffle: Window, Window: 2}, {Shuffle: Slot, Window: 3}} {
		if got, ok := mustPlan(t, params, prefix(3, 11, 7, 30)).BatchVariance(51); !ok || got != (BatchVariance{}) {
			t.Errorf("%+v, an epoch of one batch: got %+v, want 0", params, got)
		}
	}
}

// TestBatchVariance_OfALongLane: the variance of a long lane examines only some of its pieces,
// which are all alike. Of b samples in a row, 4b-5 ordered pairs belong to one chunk.
func TestBatchVariance_OfALongLane(t *testing.T) {
	const chunks, batch = 1 << 13, 1 << 14
	v, ok := mustPlan(t, Params{Shuffle: Slot, Window: 1}, equal(chunks, 4)).BatchVariance(batch)
	want := (4*batch - 5 - batch*batch/chunks) / (batch * (1 - 1./chunks))
	if !ok || !(math.Abs(v.Chunk-want) <= 1e-6) {
		t.Errorf("got %v, want %v", v.Chunk, want)
	}
}

func TestMixingWindow_AcceptsTheVeryFigure(t *testing.T) {
	next, _ := mustPlan(t, Params{Shuffle: Slot, Window: 16}, equal(100, 20)).BatchVariance(64)
	if got := mustPlan(t, Params{Shuffle: Slot, Window: 8}, equal(100, 20)).MixingWindow(64, next.Worst()); got != 16 {
		t.Errorf("got %d, want 16", got)
	}
}

func TestRowStarts_AreThoseOfTheFirstBatches(t *testing.T) {
	for batches, want := range map[uint64]int{2: 2, lookStarts: lookStarts, lookStarts + 1: lookStarts} {
		if got := rowStarts(4, batches, 3); len(got) != want || !slices.Equal(got[:2], []uint64{0, 1}) {
			t.Errorf("%d batches: got %v, want %d starts", batches, got, want)
		}
	}
}

// TestMoved_LooksAtFewLargeBatches: Moved examines few large batches, and the first 2^18 samples of
// a larger one.
func TestMoved_LooksAtFewLargeBatches(t *testing.T) {
	p := mustPlan(t, Params{Shuffle: Slot, Window: 6, Seed: 1}, equal(37, 20_011))
	for size, looks := range map[uint64]uint64{1 << 16: 4, 1 << 17: 2, 1 << 19: 1} {
		b := Batching{Samples: p.samples, BatchSize: size, Tail: Short}
		e := p.Epoch(0)
		var moved, all uint64
		for i := range looks {
			batch := b.Share(i*b.Batches()/looks, 0, 1)
			batch.Count = min(batch.Count, movedSamples)
			moved += movedFrom(e.appendHomes(nil, batch, 3), 5, 3)
			all += batch.Count
		}
		want := float64(moved) / float64(all)
		if got := p.Moved(b, 5, 3); got != want || want == 0 {
			t.Errorf("batches of %d: got %v moved, want %v", size, got, want)
		}
	}
}

// TestHolding_OfProductsOfAWord: (x+1)*parts is exactly 2^64.
func TestHolding_OfProductsOfAWord(t *testing.T) {
	if got, want := holding(1<<44-1, 1<<20, 1<<50), uint64(1<<14-1); got != want {
		t.Errorf("got part %d, want %d", got, want)
	}
}
