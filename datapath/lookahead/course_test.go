package lookahead

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/shuffle"
)

// In any order of requests, no batch is in two runs, and none is in a run that began after the
// batch was requested.
func TestRunsNeverOverlap(t *testing.T) {
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.Window, Window: 4, Seed: 3}, []uint64{0, 50, 100, 150, 200, 250})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		batch, world := rapid.Uint64Range(1, 20).Draw(t, "batch"), rapid.Uint64Range(1, 3).Draw(t, "world")
		var c Course[int]
		seen := map[uint64]bool{}
		most, began, epoch := uint64(0), false, plan.Epoch(0)
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			first := (most + rapid.Uint64Range(0, 3).Draw(t, "ahead")*batch)
			first -= min(first, rapid.Uint64Range(0, 2).Draw(t, "late")*batch)
			if first >= plan.Samples() {
				break
			}
			c.Come(shuffle.Cursor{Plan: plan, Epoch: epoch, First: first, End: min(first+batch, plan.Samples()), BatchSize: batch, WorldSize: world})
			if most, began = max(most, first), true; c.at.First != most {
				t.Fatalf("got the foremost request at %d, want %d", c.at.First, most)
			}
			run := c.Next()
			if run == nil {
				continue
			}
			from, batches := run.first, (run.end-run.first)/batch
			if batches == 0 || batches > RunBatches || from+(batches-1)*batch >= plan.Samples() {
				t.Fatalf("got a run of %d batches from %d on, want some, %d at most and none past the end", batches, from, RunBatches)
			}
			if rapid.Bool().Draw(t, "cut") {
				batches = rapid.Uint64Range(0, batches-1).Draw(t, "left")
				c.Cut(run, from+batches*batch)
			}
			for n := range batches {
				at := from + n*batch
				if seen[at] || at <= most {
					t.Errorf("the batch at %d is in a run, again: %v, foremost %d", at, seen[at], most)
				}
				seen[at] = true
			}
		}
		if !began {
			t.Fatal("got no request")
		}
	})
}

// Each run is dropped once: when its last batch has its samples, when the rank has passed it, or
// when the rank is forgotten. Until then a batch may need it.
func TestRunsAreDroppedOnce(t *testing.T) {
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	epochs := []*shuffle.Epoch{plan.Epoch(0), plan.Epoch(1)}
	rapid.Check(t, func(t *rapid.T) {
		var c Course[int]
		dropped, open := map[*Run[int]]bool{}, map[*Run[int]]map[uint64]bool{} // open has, for each run, the batches not requested yet
		drop := func(runs []*Run[int], why string) {
			for _, r := range runs {
				if dropped[r] || open[r] == nil {
					t.Fatalf("got the run at %d dropped again, or never begun", r.first)
				}
				if why == "had" && len(open[r]) > 0 {
					t.Fatalf("got the run at %d dropped with %d batches to come", r.first, len(open[r]))
				}
				dropped[r] = true
				delete(open, r)
			}
		}
		place := uint64(0)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if rapid.IntRange(0, 9).Draw(t, "step") == 0 {
				drop(c.Drop(func(r *Run[int]) bool { return r.first%20 == 0 }), "dropped")
				continue
			}
			place += rapid.Uint64Range(0, 3).Draw(t, "ahead")
			epoch, first := min(place/100, 1), 10*(place%100)
			at := shuffle.Cursor{Plan: plan, Epoch: epochs[epoch], First: first, End: first + 10, BatchSize: 10}
			drop(c.Come(at), "passed")
			for r, left := range open {
				if r.At.Epoch.Number() == epoch {
					delete(left, first)
				}
			}
			drop(c.Had(at), "had")
			if r := c.Next(); r != nil {
				open[r] = map[uint64]bool{}
				for n := r.first; n < r.end; n += 10 {
					open[r][n] = true
				}
			}
			for r, left := range open {
				if len(left) == 0 || !slices.Contains(c.Runs(), r) {
					t.Fatalf("got the run at %d with %d batches to come, and listed: %v", r.first, len(left), slices.Contains(c.Runs(), r))
				}
			}
		}
		drop(c.Drop(func(*Run[int]) bool { return true }), "given up")
		if len(open) != 0 || len(c.Runs()) != 0 {
			t.Errorf("got %d runs that were never dropped", len(open))
		}
	})
}

// places is a dataset of chunks with ten samples each. A peer owns the chunks with an odd number.
type places struct{}

func (places) ChunkOf(sample uint64) int { return int(sample / 10) }
func (places) Mean(int) int64            { return 100 }

func (places) Owner(chunk int) string {
	if chunk%2 == 0 {
		return ""
	}
	return "peer"
}

// A run requests samples of other gateways for as many batches as its limits allow, and always for
// its first batch.
func TestRun_KeepsItsLimits(t *testing.T) {
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	const all = 32 * 8 * 10 * (100 + SampleCost) // an amount of memory with which one run may have the samples of 8 batches
	for name, x := range map[string]struct {
		limits  Limits
		batches uint64
	}{
		"none":                {Limits{Memory: all, Question: all, Fits: true}, 8},
		"limit of a run":      {Limits{Memory: all / 2, Question: all, Fits: true}, 4},
		"limit of a question": {Limits{Memory: all, Question: all / 32 / 4, Fits: true}, 2},
		"chunks of one owner": {Limits{Memory: all, Question: all}, 4},
		"less than a batch":   {Limits{Memory: 1, Question: 1, Fits: true}, 1},
	} {
		var c Course[int]
		var r *Run[int]
		for first := uint64(0); r == nil || r.end-r.first < RunBatches*20; first += 20 {
			c.Come(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: first, End: first + 20, BatchSize: 20})
			r = c.Next()
		}
		samples, end := r.Plan(places{}, &x.limits)
		if got := (end - r.first) / 20; got != x.batches || uint64(len(samples)) != 10*got {
			t.Errorf("%s: got %d batches with %d samples of peers, want %d with 10 each", name, got, len(samples), x.batches)
		}
		for _, s := range samples {
			if s/10%2 == 0 || s < r.first || s >= end {
				t.Errorf("%s: got sample %d, which is not a peer's, or of no batch from %d to %d", name, s, r.first, end)
			}
		}
	}
}

// A rank that proceeds batch by batch requests its first batch itself. All other batches are in a
// few runs, each of which begins before the rank reaches it.
func TestRunsCoverAnEpoch(t *testing.T) {
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	var c Course[int]
	var got []uint64
	runs := 0
	for first := uint64(0); first < 1000; first += 10 {
		c.Come(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), First: first, End: first + 10, BatchSize: 10})
		if first > 0 && !slices.Contains(got, first) {
			t.Fatalf("the rank comes to %d, which is in no run", first)
		}
		if run := c.Next(); run != nil {
			runs++
			for at := run.first; at < run.end; at += 10 {
				got = append(got, at)
			}
		}
	}
	if want := len(got); want != 99 || got[0] != 10 || got[98] != 990 || runs > 99/8+6 {
		t.Errorf("got %d batches from %d on in %d runs, want 99 from 10 on in %d at most", len(got), got[0], runs, 99/8+6)
	}
}

// A rank that reads the same plan at another position counts as another rank. A reader does not
// return to positions far behind its own.
func TestCourse_Near(t *testing.T) {
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	at := func(epoch, first uint64) shuffle.Cursor {
		return shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(epoch), First: first, End: first + 10, BatchSize: 10}
	}
	for _, x := range []struct {
		from, to     shuffle.Cursor
		near, passed bool
	}{
		{at(1, 500), at(1, 510), true, false},
		{at(1, 500), at(1, 820), true, false},
		{at(1, 500), at(1, 830), false, true},
		{at(1, 500), at(1, 180), true, false},
		{at(1, 500), at(1, 170), false, false},
		{at(1, 990), at(2, 0), true, false},
		{at(1, 990), at(2, 320), false, true},
		{at(2, 0), at(1, 990), true, false},
		{at(2, 0), at(1, 670), false, false},
		{at(0, 0), at(3, 0), false, true},
		{at(3, 0), at(0, 990), false, false},
	} {
		var c Course[int]
		c.Come(x.from)
		if near, passed := c.Near(x.to), Passed(x.to, x.from); near != x.near || passed != x.passed {
			t.Errorf("epoch %d position %d after epoch %d position %d: got near %v, passed %v; want %v and %v",
				x.to.Epoch.Number(), x.to.First, x.from.Epoch.Number(), x.from.First, near, passed, x.near, x.passed)
		}
	}
}

func TestLimits_LeaveRunsAnEighthOfTheMemory(t *testing.T) {
	if got := (&Limits{Memory: 800}).Left(30); got != 70 {
		t.Errorf("800 bytes of memory, of which runs hold 30: got %d bytes left, want 70", got)
	}
}
