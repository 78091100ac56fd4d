package lookahead

import (
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

// walk is the course of a rank that reads a thousand samples in stored order, in batches of ten.
type walk struct {
	*testing.T
	Course[int]
	plan *shuffle.Plan
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	return &walk{T: t, plan: plan}
}

func (w *walk) cursor(epoch, first uint64) shuffle.Cursor {
	return shuffle.Cursor{Plan: w.plan, Epoch: w.plan.Epoch(epoch), First: first, End: first + 10, BatchSize: 10}
}

// next records a request at position `first`, and requires that a run from `from` to `end` begins.
func (w *walk) next(epoch, first, from, end uint64) *Run[int] {
	w.Helper()
	w.Come(w.cursor(epoch, first))
	r := w.Next()
	if r == nil || r.first != from || r.end != end {
		w.Fatalf("at %d of epoch %d: got run %+v, want one from %d to %d", first, epoch, r, from, end)
	}
	return r
}

// no records a request at position `first`, and requires that no run begins.
func (w *walk) no(epoch, first uint64) {
	w.Helper()
	w.Come(w.cursor(epoch, first))
	if r := w.Next(); r != nil {
		w.Fatalf("at %d of epoch %d: got a run from %d to %d, want none", first, epoch, r.first, r.end)
	}
}

// Nothing is read ahead before the first request, and each run begins halfway through the previous
// run.
func TestCourse_BeginsRunsInTime(t *testing.T) {
	w := newWalk(t)
	if w.Next() != nil {
		t.Fatal("got a run before the first request, want none")
	}
	w.next(0, 0, 10, 30)
	w.no(0, 0)
	w.next(0, 10, 30, 70)
	w.next(0, 20, 70, 150)
	w.no(0, 40)
	w.next(0, 50, 150, 230)
	w.no(0, 40) // out of order
	if got := w.At().First; got != 50 {
		t.Errorf("got the foremost request at %d, want 50", got)
	}
	w.next(1, 0, 10, 30)
	w.no(0, 990) // a request of the previous epoch
	if got := w.At().Epoch.Number(); got != 1 {
		t.Errorf("got the foremost request in epoch %d, want 1", got)
	}
}

// Find returns the run that covers a batch until every batch of the run has its samples.
func TestCourse_FindsRunOfBatch(t *testing.T) {
	w := newWalk(t)
	r := w.next(0, 0, 10, 30)
	for _, at := range []shuffle.Cursor{w.cursor(0, 0), w.cursor(0, 30), w.cursor(1, 10)} {
		if got := w.Find(at); got != nil || len(w.Had(at)) != 0 {
			t.Errorf("position %d of epoch %d: got the run from 10 to 30, want none", at.First, at.Epoch.Number())
		}
	}
	if got := w.Had(w.cursor(0, 10)); len(got) != 0 || w.Find(w.cursor(0, 10)) != r || w.Find(w.cursor(0, 20)) != r {
		t.Errorf("got %d runs over with a batch still to come, or that batch without its run", len(got))
	}
	if got := w.Had(w.cursor(0, 20)); len(got) != 1 || got[0] != r || len(w.Runs()) != 0 || w.Find(w.cursor(0, 10)) != nil {
		t.Errorf("got %v over, want the run from 10 to 30: all its batches had their samples", got)
	}
}

// A run that is cut leaves its last batches to the next run. If the rank has already requested
// them, or the next run has begun, they are in no run.
func TestCourse_CutGivesBatchesOn(t *testing.T) {
	t.Run("the next one takes them", func(t *testing.T) {
		w := newWalk(t)
		w.next(0, 0, 10, 30)
		r := w.next(0, 10, 30, 70)
		w.Cut(r, 90) // an end beyond that of the run
		if r.end != 70 {
			t.Fatalf("got an end of %d, want 70 as before", r.end)
		}
		w.Cut(r, 50)
		if w.Find(w.cursor(0, 50)) != nil {
			t.Error("got a run for a batch that was cut off")
		}
		w.next(0, 20, 50, 130)
	})
	t.Run("all that is left of it has come", func(t *testing.T) {
		w := newWalk(t)
		r := w.next(0, 0, 10, 30)
		w.Cut(r, 20)
		if over := w.Had(w.cursor(0, 10)); len(over) != 1 || over[0] != r || len(w.runs) != 0 {
			t.Errorf("got %d runs that wait for batches, want none: the only one of it has come", len(w.runs))
		}
	})
	t.Run("the rank has passed them", func(t *testing.T) {
		w := newWalk(t)
		r := w.next(0, 0, 10, 30)
		w.Come(w.cursor(0, 20))
		w.Cut(r, 20)
		w.next(0, 20, 30, 70)
	})
	t.Run("another run has begun", func(t *testing.T) {
		w := newWalk(t)
		r := w.next(0, 0, 10, 30)
		w.next(0, 10, 30, 70)
		w.Cut(r, 20)
		w.next(0, 20, 70, 150)
	})
	t.Run("to nothing", func(t *testing.T) {
		w := newWalk(t)
		r := w.next(0, 0, 10, 30)
		w.Cut(r, 10)
		for first := uint64(0); first < 990; first += 10 {
			w.no(0, first)
		}
		w.next(1, 0, 10, 30)
	})
	t.Run("a run of the epoch before", func(t *testing.T) {
		w := newWalk(t)
		r := w.next(0, 0, 10, 30)
		w.next(1, 0, 10, 30)
		w.Cut(r, 10)
		w.next(1, 10, 30, 70)
	})
}

// A cursor that differs from the rank in any field belongs to another rank.
func TestCourse_NearComparesTheWholeCursor(t *testing.T) {
	w := newWalk(t)
	w.Come(w.cursor(0, 500))
	if !w.Near(w.cursor(0, 510)) {
		t.Fatal("got the next batch of the rank as another one's")
	}
	other, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None, Seed: 1}, []uint64{0, 1000})
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *shuffle.Cursor){
		"rank":          func(c *shuffle.Cursor) { c.Rank = 1 },
		"world size":    func(c *shuffle.Cursor) { c.WorldSize = 2 },
		"batch size":    func(c *shuffle.Cursor) { c.BatchSize = 20 },
		"plan":          func(c *shuffle.Cursor) { c.Plan, c.Epoch = other, other.Epoch(0) },
		"place":         func(c *shuffle.Cursor) { c.First = 500 + 10*(farApart+1) },
		"place, behind": func(c *shuffle.Cursor) { c.First = 500 - 10*(farApart+1) },
	} {
		at := w.cursor(0, 510)
		if change(&at); w.Near(at) {
			t.Errorf("another %s: got the same rank", name)
		}
	}
}

// The number of samples that a run requests from one owner is at most that of a query.
func TestRun_PlanBoundsTheSamplesOfAQuestion(t *testing.T) {
	const batch = questionSamples
	plan, err := shuffle.NewPlan(shuffle.Params{Shuffle: shuffle.None}, []uint64{0, 10 * batch})
	if err != nil {
		t.Fatal(err)
	}
	var c Course[int]
	c.Come(shuffle.Cursor{Plan: plan, Epoch: plan.Epoch(0), End: batch, BatchSize: batch})
	r := c.Next()
	samples, end := r.Plan(one{}, &Limits{Memory: 1 << 50, Question: 1 << 50, Fits: true})
	if end != 2*batch || len(samples) != batch {
		t.Errorf("got %d samples up to %d, want those of one batch, %d up to %d", len(samples), end, batch, 2*batch)
	}
}

// one is a dataset with one chunk, which a peer owns.
type one struct{}

func (one) ChunkOf(uint64) int { return 0 }
func (one) Mean(int) int64     { return 1 }
func (one) Owner(int) string   { return "peer" }

// A request past the end of a run drops the run.
func TestCome_DropsRunsThatWerePassed(t *testing.T) {
	w := newWalk(t)
	w.Come(w.cursor(0, 0))
	r := w.Next()
	if got := w.Come(w.cursor(0, 10)); len(got) != 0 {
		t.Errorf("got %d runs dropped before their batches came", len(got))
	}
	if got := w.Come(w.cursor(0, 900)); len(got) != 1 || got[0] != r {
		t.Errorf("got %v dropped, want the run that was passed", got)
	}
}
