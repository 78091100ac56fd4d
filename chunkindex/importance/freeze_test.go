package importance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// slowFreeze computes the weights and hot samples of a request with the simplest algorithm. seen
// contains the reported losses by position.
func slowFreeze(q FreezeRequest, seen map[uint64]float64, base []uint32) (weights []uint32, hot []bool) {
	q.withDefaults()
	n := q.First[len(q.First)-1]
	weights, hot = make([]uint32, n), make([]bool, n)
	for s := range weights {
		if weights[s] = Weight((q.BatchSize - 1) / 2); base != nil {
			weights[s] = base[s]
		}
	}
	for _, p := range slices.Sorted(maps.Keys(seen)) {
		rank := uint64(0)
		for other, loss := range seen {
			if other/q.BatchSize == p/q.BatchSize && (loss < seen[p] || loss == seen[p] && other < p) {
				rank++
			}
		}
		sample, _ := q.Resolve(context.Background(), []uint64{p})
		weights[sample[0]] = Weight(rank)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(weights[b]) - int(weights[a]) })
	for _, s := range order[:int(q.HotShare*float64(n)+1e-9)] {
		hot[s] = true
	}
	return weights, hot
}

// repeated multiplies the weights of hot samples by repeat.
func repeated(weights []uint32, hot []bool, repeat uint32) []uint32 {
	out := slices.Clone(weights)
	for s := range out {
		if hot[s] {
			out[s] *= repeat
		}
	}
	return out
}

func reportedLosses(reports []Report) map[uint64]float64 {
	seen := map[uint64]float64{}
	for _, r := range reports {
		for i, p := range r.Positions {
			seen[p] = r.Losses[i]
		}
	}
	return seen
}

func wantSnapshot(t *testing.T, s *Snapshot, q FreezeRequest, weights []uint32, hot []bool) {
	t.Helper()
	q.withDefaults()
	got, gotHot := weightsOf(t, s)
	if want := repeated(weights, hot, q.Repeat); !slices.Equal(got, want) {
		t.Errorf("weights: got %v, want %v", got, want)
	}
	if !slices.Equal(gotHot, hot) {
		t.Errorf("hot: got %v, want %v", gotHot, hot)
	}
	for i, total := range s.Totals() {
		var sum uint64
		for _, w := range got[q.First[i]:q.First[i+1]] {
			sum += uint64(w)
		}
		if total != sum {
			t.Errorf("chunk %d: got total %d, want %d", i, total, sum)
		}
	}
}

func TestSnapshotHoldsTheWeightsOfItsReports(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		l := newLog(t, store)
		reports := epochReports(epochLosses(43, 1))
		reports = slices.Delete(reports, 2, 3) // leaves one batch without reports
		add(t, l, reports...)
		q := request()
		f := freeze(t, l, q)
		want := Frozen{Digest: f.Digest, New: true, Samples: 43, HotSamples: 8, Reports: 5, Positions: 35}
		if f != want {
			t.Errorf("got %+v, want %+v", f, want)
		}
		s := open(t, l, f.Digest)
		weights, hot := slowFreeze(q, reportedLosses(reports), nil)
		wantSnapshot(t, s, q, weights, hot)
		if s.Digest() != f.Digest || s.Generation() != testGeneration() || s.Plan() != testPlan || s.Epoch() != 3 || s.Base() != "" ||
			s.Samples() != 43 || s.HotSamples() != 8 || s.HotShare() != .2 || s.Repeat() != 3 || s.Positions() != 35 {
			t.Errorf("description: got %+v", s.head)
		}
	})
}

// TestFreeze_IgnoresTheOrderOfReports checks that the same losses produce the same snapshot in any
// order, through any gateway, and with any division and repetition of reports. The snapshot must
// match the formulas.
func TestFreeze_IgnoresTheOrderOfReports(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		losses := epochLosses(43, rapid.Uint64().Draw(r, "losses"))
		q := request()
		q.Repeat = rapid.Uint32Range(1, 5).Draw(r, "repeat")
		q.HotShare = rapid.SampledFrom([]float64{.01, .1, .25, .5, 1}).Draw(r, "hot share")
		digest := ""
		for range 2 {
			store := memstore.New()
			logs := []*Log{newLog(t, store), newLog(t, store)}
			var all []Report
			for lo := 0; lo < 43; lo += testBatchSize {
				hi := min(lo+testBatchSize, 43)
				cut := rapid.IntRange(lo, hi).Draw(r, "cut")
				for _, part := range []Report{report(losses, lo, cut), report(losses, cut, hi), report(losses, min(lo+1, cut), hi)} {
					if len(part.Positions) > 0 {
						all = append(all, part)
					}
				}
			}
			for _, i := range rapid.Permutation(slices.Collect(indices(all))).Draw(r, "arrival") {
				gateway := rapid.IntRange(0, 1).Draw(r, "gateway")
				add(t, logs[gateway], all[i])
			}
			seen := reportedLosses(all)
			f := freeze(t, logs[0], q)
			if digest != "" && f.Digest != digest {
				r.Fatalf("digest: got %s, want %s", f.Digest, digest)
			}
			digest = f.Digest
			s := open(t, logs[1], digest)
			weights, hot := slowFreeze(q, seen, nil)
			wantSnapshot(t, s, q, weights, hot)
			if t.Failed() {
				r.FailNow()
			}
		}
	})
}

func indices(reports []Report) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range reports {
			if !yield(i) {
				return
			}
		}
	}
}

// TestHighestPositionCounts uses an order in which samples occur several times, as when a plan
// draws by importance.
func TestHighestPositionCounts(t *testing.T) {
	l := newLog(t, memstore.New())
	reports := epochReports(epochLosses(43, 1))
	rand.Shuffle(len(reports), func(i, j int) { reports[i], reports[j] = reports[j], reports[i] })
	add(t, l, reports...)
	q := request()
	q.Resolve = func(_ context.Context, positions []uint64) ([]uint64, error) {
		samples := make([]uint64, len(positions))
		for i, p := range positions {
			samples[i] = p % 11
		}
		return samples, nil
	}
	weights, hot := slowFreeze(q, reportedLosses(reports), nil)
	wantSnapshot(t, open(t, l, freeze(t, l, q).Digest), q, weights, hot)
}

func TestUnreportedSamplesKeepTheWeightOfTheirPlan(t *testing.T) {
	l := newLog(t, memstore.New())
	add(t, l, epochReports(epochLosses(43, 1))...)
	base := open(t, l, freeze(t, l, request()).Digest)
	raw, _ := slowFreeze(request(), reportedLosses(epochReports(epochLosses(43, 1))), nil)

	next := report(epochLosses(43, 2), 16, 24)
	next.Plan += "&importance=" + base.Digest()
	add(t, l, next)
	q := request()
	q.Plan, q.Base = next.Plan, base
	s := open(t, l, freeze(t, l, q).Digest)
	weights, hot := slowFreeze(q, reportedLosses([]Report{next}), raw)
	wantSnapshot(t, s, q, weights, hot)
	if got, want := s.Base(), base.Digest(); got != want {
		t.Errorf("base: got %s, want %s", got, want)
	}
}

func TestFreezeRefuses(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	base := open(t, l, freeze(t, l, request()).Digest)
	sorry := errors.New("sorry")
	for name, c := range map[string]struct {
		change func(q *FreezeRequest)
		want   error
		text   string
	}{
		"another plan":    {func(q *FreezeRequest) { q.Plan += "x" }, ErrNoReports, ""},
		"another epoch":   {func(q *FreezeRequest) { q.Epoch++ }, ErrNoReports, ""},
		"batch size":      {func(q *FreezeRequest) { q.BatchSize = 4 }, ErrCorrupt, "the batches of the plan have 4"},
		"nothing":         {func(q *FreezeRequest) { *q = FreezeRequest{} }, ErrInvalid, "no plan\ngeneration \"\": must be 64 hexadecimal digits\nbatch size 0: must be from 1 to 1048576\nno samples"},
		"large batch":     {func(q *FreezeRequest) { q.BatchSize = MaxBatch + 1 }, ErrInvalid, "batch size 1048577"},
		"hot share":       {func(q *FreezeRequest) { q.HotShare = 1.01 }, ErrInvalid, "hot share 1.01"},
		"negative share":  {func(q *FreezeRequest) { q.HotShare = -.1 }, ErrInvalid, "hot share -0.1"},
		"repeat":          {func(q *FreezeRequest) { q.Repeat = 1001 }, ErrInvalid, "repetition 1001"},
		"descending":      {func(q *FreezeRequest) { q.First = []uint64{0, 7, 5} }, ErrInvalid, "chunk 1 has an impossible number of samples"},
		"other chunks":    {func(q *FreezeRequest) { q.Base, q.First = base, []uint64{0, 43} }, ErrInvalid, "base snapshot"},
		"base generation": {func(q *FreezeRequest) { q.Base, q.Generation = base, strings.Repeat("22", 32) }, ErrGeneration, ""},
		"resolve fails":   {func(q *FreezeRequest) { q.Resolve = resolved(nil, sorry) }, sorry, "samples at positions 0 to 42"},
		"too few samples": {func(q *FreezeRequest) { q.Resolve = resolved([]uint64{1}, nil) }, nil, "the plan returned 1 samples for 43 positions"},
		"sample too high": {func(q *FreezeRequest) { q.Resolve = resolved(slices.Repeat([]uint64{43}, 43), nil) }, nil, "sample 43 at position 0"},
	} {
		t.Run(name, func(t *testing.T) {
			q := request()
			c.change(&q)
			_, err := l.Freeze(t.Context(), q)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Freeze(ctx, request()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
	denied(store, true)
	if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrReadOnly) || !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("bucket refuses: got %v, want %v", err, ErrReadOnly)
	}
	l.cfg.Writer = nil
	if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("no writer: got %v, want %v", err, ErrReadOnly)
	}
}

// TestFreeze_RefusesBatchesThatBeginElsewhere: the report's batch 1 begins at position 9, but with
// a batch size of 8 it must begin at position 8.
func TestFreeze_RefusesBatchesThatBeginElsewhere(t *testing.T) {
	l := newLog(t, memstore.New())
	r := report(epochLosses(43, 1), testBatchSize+1, 2*testBatchSize)
	r.First++
	add(t, l, r)
	if _, err := l.Freeze(t.Context(), request()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "8 positions from 9 on") {
		t.Errorf("got %v, want %v with the positions", err, ErrCorrupt)
	}
}

func resolved(samples []uint64, err error) func(context.Context, []uint64) ([]uint64, error) {
	return func(context.Context, []uint64) ([]uint64, error) { return samples, err }
}

// TestManyReports checks that Freeze reads more reports than one group holds, with a limited number
// of concurrent requests.
func TestManyReports(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	const batches, size = 3000, 4
	first := []uint64{0, 5000, 5001, batches * size}
	q := request()
	q.BatchSize, q.First = size, first
	calls := 0
	q.Resolve = func(_ context.Context, positions []uint64) ([]uint64, error) {
		calls++
		if !slices.IsSorted(positions) {
			t.Error("positions to resolve: not ascending")
		}
		return positions, nil
	}
	losses := epochLosses(batches*size, 1)
	var want []uint32
	for b := range uint64(batches) {
		r := Report{Plan: testPlan, Epoch: 3, Batch: b, First: b * size, Count: size}
		for p := r.First; p < r.First+size; p++ {
			r.Positions, r.Losses = append(r.Positions, p), append(r.Losses, losses[p])
		}
		store.Set(l.key(&r), r.encode())
		want = append(want, slowWeights(r.Losses)...)
	}
	q.Repeat = 1
	store.Reset()
	f := freeze(t, l, q)
	if f.Reports != batches || f.Positions != batches*size || calls < 2 || calls > 4 {
		t.Errorf("got %+v in %d calls, want all reports, in a few", f, calls)
	}
	if st := store.Stats(); st.Requests[memstore.Read] != batches || st.Requests[memstore.List] != 1 || st.MaxInFlight > readers+1 {
		t.Errorf("requests: got %+v, want one read a report, at most %d at a time", st, readers)
	}
	s, err := l.Open(t.Context(), f.Digest, testGeneration(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, _ := weightsOf(t, s); !slices.Equal(got, want) {
		t.Error("weights: they are not those of the reports")
	}
}

// TestLargeReportsAreFoldedInParts checks the documented memory limit of Freeze. A position needs
// 12 bytes in a report, and 36 bytes during processing.
func TestLargeReportsAreFoldedInParts(t *testing.T) {
	if got, limit := (groupBytes+maxReport)/12*36, 64<<20; got > limit {
		t.Errorf("got %d bytes for a group and the batch that completes it, want at most %d", got, limit)
	}
	store := memstore.New()
	l := newLog(t, store)
	const batches, size = 12, 1 << 16 // 11 of these reports exceed 8 MiB
	r := Report{Plan: testPlan, Epoch: 3, Count: size, Positions: make([]uint64, size), Losses: make([]float64, size)}
	for ; r.Batch < batches; r.Batch++ {
		r.First = r.Batch * size
		for i := range r.Positions {
			r.Positions[i] = r.First + uint64(i)
		}
		store.Set(l.key(&r), r.encode())
	}
	q := request()
	q.BatchSize, q.First = size, []uint64{0, 1, batches * size}
	var parts []int
	q.Resolve = func(_ context.Context, positions []uint64) ([]uint64, error) {
		parts = append(parts, len(positions))
		return positions, nil
	}
	freeze(t, l, q)
	if want := []int{11 * size, size}; !slices.Equal(parts, want) {
		t.Errorf("positions at a time: got %v, want %v", parts, want)
	}
}

// TestDigestNeverChanges checks that the same reports produce the same digest in every release.
func TestDigestNeverChanges(t *testing.T) {
	l := newLog(t, memstore.New())
	add(t, l, epochReports(epochLosses(43, 1))...)
	got := freeze(t, l, request()).Digest
	if want := "a826400716853669862f65c685f2ca75606db2f2abec62f3c7e2166c20839b5c"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDescriptionOfASnapshot(t *testing.T) {
	l := newLog(t, memstore.New())
	add(t, l, epochReports(epochLosses(43, 1))...)
	for _, repeat := range []uint32{1, 3, 1000} {
		q := request()
		q.Repeat = repeat
		s := open(t, l, freeze(t, l, q).Digest)
		weights, _ := weightsOf(t, s)
		var sum, square, coverage float64
		for _, w := range weights {
			sum += float64(w)
			square += float64(w) * float64(w)
		}
		for _, w := range weights {
			coverage += min(1, float64(w)*43/sum) / 43
		}
		for name, c := range map[string][2]float64{
			"coverage": {s.Coverage(), coverage}, "effective sample size": {s.EffectiveSampleSize(), sum * sum / square},
		} {
			if got, want := fmt.Sprintf("%.9f", c[0]), fmt.Sprintf("%.9f", c[1]); got != want {
				t.Errorf("%s at repetition %d: got %s, want %s", name, repeat, got, want)
			}
		}
	}
}

func TestNew_ChecksItsConfig(t *testing.T) {
	store := memstore.New()
	for _, cfg := range []Config{{}, {Reader: store, Prefix: "data"}} {
		if l, err := New(cfg); err == nil {
			t.Errorf("%+v: got %v, want an error", cfg, l)
		}
	}
}
