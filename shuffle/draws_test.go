package shuffle

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const snapshot = "5c0e1f" // name of a made-up snapshot of weights

// weighing is a weighted dataset of a test: its weights in stored order.
type weighing struct {
	first   []uint64
	weights []uint32
}

func (w *weighing) of(chunk int) []uint32 { return w.weights[w.first[chunk]:w.first[chunk+1]] }

// sample returns the stored position of a virtual sample.
func (w *weighing) sample(p *Plan, d *Draws, v uint64) uint64 {
	chunk := d.first.of(v)
	return p.chunks[chunk] + d.Sample(int(chunk), w.of(int(chunk)), v)
}

func (w *weighing) totals() []uint64 {
	totals := make([]uint64, len(w.first)-1)
	for i := range totals {
		for _, weight := range w.of(i) {
			totals[i] += uint64(weight)
		}
	}
	return totals
}

func (w *weighing) plan(t testing.TB, params Params) *Plan {
	t.Helper()
	params.Importance = snapshot
	p, err := NewWeightedPlan(params, w.first, w.totals())
	if err != nil {
		t.Fatalf("NewWeightedPlan(%+v): %v", params, err)
	}
	return p
}

// drawWeighing draws weights for chunks, with a sum above 0. It returns nil if every chunk is
// empty.
func drawWeighing(t *rapid.T, first []uint64) *weighing {
	s := int(first[len(first)-1])
	if s == 0 {
		return nil
	}
	weight := rapid.SampledFrom([]*rapid.Generator[uint32]{
		rapid.Uint32Range(0, 3),
		rapid.Uint32Range(150_000, 600_000),
		rapid.SampledFrom([]uint32{0, 1, math.MaxUint32}),
		rapid.Uint32(),
	}).Draw(t, "weight")
	// A few weights repeat, so that large datasets need few draws.
	some := rapid.SliceOfN(weight, 1, 40).Draw(t, "weights")
	w := &weighing{first: first, weights: make([]uint32, s)}
	for i := range w.weights {
		w.weights[i] = some[(i+i/len(some))%len(some)]
	}
	w.weights[rapid.IntRange(0, s-1).Draw(t, "heavy")] = rapid.Uint32Min(1).Draw(t, "heavy weight")
	return w
}

// checkDraws compares an epoch's draws with the formula in exact arithmetic, sample by sample.
func checkDraws(e *Epoch, w *weighing) error {
	d, s := e.Draws(), big.NewInt(int64(len(w.weights)))
	total, phase := new(big.Int), new(big.Int).SetUint64(d.phase)
	for _, weight := range w.weights {
		total.Add(total, big.NewInt(int64(weight)))
	}
	if want := new(big.Int).SetUint64(newKey("importance", e.plan.params.Seed, e.Number()).word(0)); phase.Cmp(want.Mod(want, total)) != 0 {
		return fmt.Errorf("phase: got %v, want %v", phase, want)
	}
	before := func(p *big.Int) uint64 {
		x := new(big.Int).Mul(p, s)
		return x.Add(x, phase).Div(x, total).Uint64()
	}
	next := uint64(0)
	sum := new(big.Int)
	for chunk := range len(w.first) - 1 {
		weights := w.of(chunk)
		if got := d.First()[chunk]; got != next {
			return fmt.Errorf("first of chunk %d: got %d, want %d", chunk, got, next)
		}
		for place, weight := range weights {
			want := before(sum.Add(sum, big.NewInt(int64(weight))))
			lo, hi := d.Of(chunk, weights, uint64(place))
			if lo != next || hi != want {
				return fmt.Errorf("chunk %d, place %d: got draws [%d, %d), want [%d, %d)", chunk, place, lo, hi, next, want)
			}
			// The number of draws differs from s*w/W by less than one.
			off := new(big.Int).SetUint64(hi - lo)
			off.Sub(off.Mul(off, total), new(big.Int).Mul(s, big.NewInt(int64(weight))))
			if off.CmpAbs(total) >= 0 {
				return fmt.Errorf("chunk %d, place %d, weight %d of %v: got %d draws of %v", chunk, place, weight, total, hi-lo, s)
			}
			for v := lo; v < hi; v++ {
				if got := d.Sample(chunk, weights, v); got != uint64(place) {
					return fmt.Errorf("chunk %d: virtual sample %d: got place %d, want %d", chunk, v, got, place)
				}
			}
			next = hi
		}
	}
	if last := d.First()[len(w.first)-1]; next != s.Uint64() || last != next {
		return fmt.Errorf("got %d draws, and %d by First, want %v", next, last, s)
	}
	return nil
}

func TestDrawsFollowTheWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params, first := drawParams(t), drawChunks(t)
		w := drawWeighing(t, first)
		if w == nil {
			return
		}
		params.Importance = snapshot
		p, err := NewWeightedPlan(params, first, w.totals())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Samples(), uint64(len(w.weights)); got != want {
			t.Fatalf("got %d samples, want %d", got, want)
		}
		if got := p.Params(); got != params {
			t.Fatalf("got %+v, want %+v", got, params)
		}
		e := p.Epoch(rapid.Uint64().Draw(t, "epoch"))
		if err := checkDraws(e, w); err != nil {
			t.Fatal(err)
		}
		if err := checkBijection(e); err != nil {
			t.Fatal(err)
		}
		if err := checkSpans(e); err != nil {
			t.Fatal(err)
		}
		if spans := uint64(len(slices.Collect(e.Spans(0)))); spans > p.Reads() {
			t.Fatalf("got %d spans, want at most %d, the plan's reads", spans, p.Reads())
		}
	})
}

// TestEqualWeightsChangeNothing: with equal weights each sample is drawn once, at the position that
// it has without weights.
func TestEqualWeightsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params, first := drawParams(t), drawChunks(t)
		s := first[len(first)-1]
		if s == 0 {
			return
		}
		w := &weighing{first: first, weights: slices.Repeat([]uint32{rapid.Uint32Min(1).Draw(t, "weight")}, int(s))}
		plain, err := NewPlan(params, first)
		if err != nil {
			t.Fatal(err)
		}
		params.Importance = snapshot
		p, err := NewWeightedPlan(params, first, w.totals())
		if err != nil {
			t.Fatal(err)
		}
		epoch := rapid.Uint64().Draw(t, "epoch")
		e := p.Epoch(epoch)
		if got := e.Draws().First(); !slices.Equal(got, first) {
			t.Fatalf("got draws %v, want %v", got, first)
		}
		if got, want := e.Append(nil, 0, s), plain.Epoch(epoch).Append(nil, 0, s); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// TestDrawsVaryWithEpochAndSeed checks samples whose weight is half a draw: the phase determines
// whether one is drawn, and each is drawn in about half of the epochs.
func TestDrawsVaryWithEpochAndSeed(t *testing.T) {
	w := &weighing{first: equal(10, 100), weights: slices.Repeat([]uint32{3, 1}, 500)}
	const epochs = 400
	for _, name := range []string{None, Window, Slot, Full} {
		p := w.plan(t, Params{Shuffle: name, Window: 3, Seed: 9})
		drawn := make([]int, 100)
		for epoch := range uint64(epochs) {
			d := p.Epoch(epoch).Draws()
			for place := range drawn {
				lo, hi := d.Of(4, w.of(4), uint64(place))
				drawn[place] += int(hi - lo)
			}
		}
		for place, n := range drawn {
			want := float64(epochs) * []float64{1.5, .5}[place%2]
			if sigma := math.Sqrt(epochs * .25); math.Abs(float64(n)-want) > 5*sigma {
				t.Errorf("%s: sample %d: got %d draws in %d epochs, want about %.0f", name, place, n, epochs, want)
			}
		}
	}
	a := w.plan(t, Params{Shuffle: None, Seed: 1}).Epoch(0).Draws().phase
	b := w.plan(t, Params{Shuffle: None, Seed: 2}).Epoch(0).Draws().phase
	if a == b {
		t.Errorf("seeds 1 and 2: got the phase %d twice", a)
	}
}

// TestDrawsOfHugeWeights checks the arithmetic for products above 2^64: totals up to 2^64 - 1, and
// more samples than any dataset has.
func TestDrawsOfHugeWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "chunks")
		first, totals := make([]uint64, n+1), make([]uint64, n)
		// Words come from a generator, since rapid prefers small numbers.
		words := newKey("huge", rapid.Uint64().Draw(t, "words"))
		left := rapid.SampledFrom([]uint64{math.MaxUint64, words.word(0) | 1<<63, words.word(0)>>40 + 1}).Draw(t, "total")
		all := left
		for i := range totals {
			first[i+1] = first[i] + rapid.Uint64Range(1, maxSamples/5).Draw(t, "samples")
			if totals[i] = left; i+1 < n {
				totals[i] = rapid.Uint64Range(0, left).Draw(t, "weight")
			}
			left -= totals[i]
		}
		p, err := NewWeightedPlan(Params{Shuffle: Full, Seed: rapid.Uint64().Draw(t, "seed"), Importance: snapshot}, first, totals)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Epoch(rapid.Uint64().Draw(t, "epoch")).Draws()
		s, total, phase := new(big.Int).SetUint64(first[n]), new(big.Int).SetUint64(all), new(big.Int).SetUint64(d.phase)
		sum := new(big.Int)
		for i := range totals {
			want := new(big.Int).Mul(sum.Add(sum, new(big.Int).SetUint64(totals[i])), s)
			want.Add(want, phase).Div(want, total)
			if got := d.First()[i+1]; got != want.Uint64() {
				t.Fatalf("first of chunk %d: got %d, want %v", i+1, got, want)
			}
		}
		v := rapid.SampledFrom([]uint64{0, first[n] - 1, words.draw(1, first[n])}).Draw(t, "v")
		if reach := d.reach(v); d.before(reach) <= v || d.before(reach-1) > v {
			t.Fatalf("virtual sample %d: got %d, which is not the least sum of weights that draws it", v, reach)
		}
	})
}

func TestBadWeightedPlansAreRefused(t *testing.T) {
	good := Params{Shuffle: Slot, Window: 2, Importance: snapshot}
	for _, c := range []struct {
		params Params
		first  []uint64
		totals []uint64
		want   string
	}{
		{Params{Shuffle: Full}, []uint64{0, 2}, []uint64{1}, "params.Importance is empty"},
		{Params{Shuffle: "Full", Importance: snapshot}, []uint64{0, 2}, []uint64{1}, "unknown shuffle"},
		{Params{Shuffle: Slot, Importance: snapshot}, []uint64{0, 2}, []uint64{1}, "window is 0"},
		{good, []uint64{1, 2}, []uint64{1}, "begin with 0"},
		{good, []uint64{0, 2}, nil, "weights of 0 chunks instead of 1"},
		{good, []uint64{0, 2}, []uint64{1, 1}, "weights of 2 chunks instead of 1"},
		{good, []uint64{0, 2, 2}, []uint64{1, 1}, "chunk 1 has weight 1 and no samples"},
		{good, []uint64{0, 2, 3}, []uint64{0, 0}, "sum to 0"},
		{good, []uint64{0}, nil, "sum to 0"},
		{good, []uint64{0, 2, 3}, []uint64{math.MaxUint64, 1}, "2^64 or more"},
	} {
		if _, err := NewWeightedPlan(c.params, c.first, c.totals); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewWeightedPlan(%+v, %v, %v): got %v, want an error with %q", c.params, c.first, c.totals, err, c.want)
		}
	}
	if _, err := NewPlan(good, []uint64{0, 2}); err == nil || !strings.Contains(err.Error(), "NewWeightedPlan") {
		t.Errorf("NewPlan with importance: got %v, want an error that names NewWeightedPlan", err)
	}
	if p := mustPlan(t, Params{Shuffle: Full}, equal(2, 2)); p.Epoch(0).Draws() != nil {
		t.Error("a plan without weights: got draws, want none")
	}
}

func TestWeightsOfAnotherChunkAreAMistake(t *testing.T) {
	w := &weighing{first: equal(2, 20), weights: slices.Repeat([]uint32{5}, 40)}
	d := w.plan(t, Params{Shuffle: None}).Epoch(0).Draws()
	for want, f := range map[string]func(){
		"shuffle: 19 weights for chunk 0 of 20 samples":          func() { d.Sample(0, w.weights[:19], 0) },
		"shuffle: weights of chunk 0 sum to less than its total": func() { d.Sample(0, make([]uint32, 20), 0) },
		"shuffle: weights of chunk 1 sum to more than its total": func() { d.Of(1, slices.Repeat([]uint32{6}, 20), 19) },
		"shuffle: chunk 0 has no virtual sample 20":              func() { d.Sample(0, w.of(0), 20) },
		"shuffle: chunk 1 has no virtual sample 19":              func() { d.Sample(1, w.of(1), 19) },
	} {
		if got := fmt.Sprint(recovered(f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func recovered(f func()) (r any) {
	defer func() { r = recover() }()
	f()
	return nil
}

func TestWeightedDigestCoversTheWeights(t *testing.T) {
	first := prefix(3, 0, 5, 9)
	digest := func(params Params, totals ...uint64) string {
		p, err := NewWeightedPlan(params, first, totals)
		if err != nil {
			t.Fatal(err)
		}
		return p.OrderDigest()
	}
	for _, name := range []string{None, Window, Slot, Full} {
		base := Params{Shuffle: name, Window: 2, Seed: 1}
		other := base
		other.Seed = 2
		seen := map[string]int{mustPlan(t, base, first).OrderDigest(): -1}
		weighted := func(p Params, snapshot string) Params {
			p.Importance = snapshot
			return p
		}
		for i, d := range []string{
			digest(weighted(base, "a"), 3, 0, 5, 9),
			digest(weighted(base, "b"), 3, 0, 5, 9),
			digest(weighted(base, "a\x00"), 3, 0, 5, 9),
			digest(weighted(base, "a"), 3, 0, 6, 8),
			digest(weighted(other, "a"), 3, 0, 5, 9),
		} {
			if before, ok := seen[d]; ok {
				t.Errorf("%s: order %d has the digest of order %d", name, i, before)
			}
			seen[d] = i
		}
		if got, want := digest(weighted(base, "a"), 3, 0, 5, 9), digest(weighted(base, "a"), 3, 0, 5, 9); got != want {
			t.Errorf("%s: the same order twice: got %s, want %s", name, got, want)
		}
	}
}

func TestWeightedReads(t *testing.T) {
	first, totals := prefix(3, 0, 5, 9, 4), []uint64{3, 0, 5, 0, 9}
	for _, c := range []struct {
		shuffle string
		window  uint64
		want    uint64
	}{{None, 0, 3}, {Window, 2, 3}, {Slot, 2, 6}, {Slot, 3, 3}, {Slot, 9, 3}, {Full, 0, 21}} {
		p, err := NewWeightedPlan(Params{Shuffle: c.shuffle, Window: c.window, Importance: snapshot}, first, totals)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reads(); got != c.want {
			t.Errorf("%s, window %d: got %d reads, want %d", c.shuffle, c.window, got, c.want)
		}
	}
}

func TestWeightStats(t *testing.T) {
	// 4 draws by weights that sum to 8: a weight of 1 is half a draw.
	s := NewWeightStats(4, 8)
	for _, chunk := range [][]uint32{{5, 0}, {}, {2, 1}} {
		s.Add(chunk)
	}
	if got, want := s.Coverage(), (1+0+1+.5)/4; got != want {
		t.Errorf("coverage: got %v, want %v", got, want)
	}
	if got, want := s.EffectiveSamples(), 64./30; math.Abs(got-want) > 1e-12 {
		t.Errorf("effective samples: got %v, want %v", got, want)
	}
	none := NewWeightStats(0, 0)
	if none.Coverage() != 0 || none.EffectiveSamples() != 0 {
		t.Errorf("no samples: got coverage %v and %v effective samples, want 0", none.Coverage(), none.EffectiveSamples())
	}
	huge := NewWeightStats(maxSamples, math.MaxUint64)
	huge.Add(slices.Repeat([]uint32{math.MaxUint32}, 1000))
	if got := huge.EffectiveSamples(); math.Abs(got-1000) > 1e-9 {
		t.Errorf("1000 of the largest weight: got %v effective samples, want 1000", got)
	}
}

// TestCoverageIsMeasured compares the expected coverage with the measured coverage of epochs.
func TestCoverageIsMeasured(t *testing.T) {
	w := &weighing{first: equal(8, 250), weights: make([]uint32, 2000)}
	var total uint64
	for i := range w.weights {
		w.weights[i] = uint32(math.Round(math.Log(float64(i*37%64)+1) * 1000))
		total += uint64(w.weights[i])
	}
	stats := NewWeightStats(2000, total)
	p := w.plan(t, Params{Shuffle: None, Seed: 4})
	var seen, epochs float64 = 0, 50
	for epoch := range uint64(epochs) {
		d := p.Epoch(epoch).Draws()
		for chunk := range 8 {
			if epoch == 0 {
				stats.Add(w.of(7 - chunk))
			}
			for place := range uint64(250) {
				if lo, hi := d.Of(chunk, w.of(chunk), place); hi > lo {
					seen++
				}
			}
		}
	}
	if got, want := stats.Coverage(), seen/epochs/2000; math.Abs(got-want) > .005 {
		t.Errorf("coverage: got %.4f, want %.4f as measured", got, want)
	}
	if got := stats.Coverage(); got < .5 || got > .95 {
		t.Errorf("coverage: got %.4f, want one that says something", got)
	}
}
