package pause

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestPauses follows one thing through its failures: some far apart, enough of them, one right after each pause.
func TestPauses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewList[string](Rule{Failures: 3, First: 10 * time.Second, Longest: 30 * time.Second})
		fail := func(want bool) {
			t.Helper()
			if got := l.Failed("a", time.Now()); got != want {
				t.Errorf("failed: got it left alone from now on: %v, want %v", got, want)
			}
		}
		paused := func(want bool) {
			t.Helper()
			if got := l.Paused("a", time.Now()); got != want || l.Paused("b", time.Now()) {
				t.Errorf("got left alone: %v, want %v, and the other never", got, want)
			}
		}
		fail(false)
		fail(false)
		time.Sleep(10*time.Second + 1)
		fail(false) // the others are too old
		fail(false)
		paused(false)
		if l.Works("a", time.Now()) {
			t.Error("works: got that it had a pause")
		}
		fail(true)
		fail(false) // it began before
		for _, pause := range []time.Duration{10, 20, 30, 30} {
			paused(true)
			time.Sleep(pause*time.Second - 1)
			if l.Works("a", time.Now()) {
				t.Error("works: got the end of a pause by what began before it")
			}
			paused(true)
			time.Sleep(time.Nanosecond)
			paused(false)
			fail(true)
		}
		time.Sleep(30 * time.Second)
		if !l.Works("a", time.Now()) || l.Works("a", time.Now()) {
			t.Error("works after a pause: got nothing new, or twice")
		}
		fail(false)
	})
}

// TestOldFailuresAreForgotten, and those that count are not.
func TestOldFailuresAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewList[int](Rule{Failures: 1, First: time.Second})
		for i := range 10_000 {
			l.Failed(i, time.Now())
			time.Sleep(10 * time.Millisecond)
			if !l.Paused(i, time.Now()) {
				t.Fatalf("%d: got it tried again at once", i)
			}
		}
		if got := len(l.known); got > 4*leastSweep {
			t.Errorf("got %d things known, want about the 100 of the last second", got)
		}
		l.Forget(9_999)
		if l.Paused(9_999, time.Now()) {
			t.Error("got what was forgotten left alone")
		}
	})
}

// TestFailuresAreNotedInConstantTime: however many things have failed, one more costs as little as the first.
func TestFailuresAreNotedInConstantTime(t *testing.T) {
	const things, some, trials = 32_000, 100, 21
	now := time.Now()
	note := func(l *List[int], first, n int) float64 {
		begin := time.Now()
		for i := range n {
			l.Failed(first+i, now)
		}
		return time.Since(begin).Seconds()
	}
	rule := Rule{Failures: 1, First: time.Second}
	many := NewList[int](rule)
	note(many, 0, things)
	ratios := make([]float64, trials)
	for i := range ratios {
		alone := note(NewList[int](rule), 0, some)
		ratios[i] = note(many, things+i*some, some) / alone
	}
	slices.Sort(ratios)
	// Steps that grow with the number of things make it 300. A machine that stands still spoils some trials, not the median.
	if got := ratios[trials/2]; got > 30 {
		t.Errorf("beside %d things it takes %.0f times as long to note %d as beside none, want about as long", things, got, some)
	}
}
