package pause

import (
	"slices"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestPauses follows one key through failures that are far apart, close together, and right after a
// pause.
func TestPauses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewList[string](Rule{Failures: 3, First: 10 * time.Second, Longest: 30 * time.Second})
		fail := func(want bool) {
			t.Helper()
			if got := l.Failed("a", time.Now()); got != want {
				t.Errorf("failed: got paused %v, want %v", got, want)
			}
		}
		paused := func(want bool) {
			t.Helper()
			if got := l.Paused("a", time.Now()); got != want || l.Paused("b", time.Now()) {
				t.Errorf("got paused %v, want %v, and the other thing never paused", got, want)
			}
		}
		fail(false)
		fail(false)
		time.Sleep(10*time.Second + 1)
		fail(false) // the other failures are too old
		fail(false)
		paused(false)
		if l.Works("a", time.Now()) {
			t.Error("works: got the end of a pause, want none")
		}
		fail(true)
		fail(false) // the operation began before the pause
		for _, pause := range []time.Duration{10, 20, 30, 30} {
			paused(true)
			time.Sleep(pause*time.Second - 1)
			if l.Works("a", time.Now()) {
				t.Error("works: an operation from before the pause ended the pause")
			}
			paused(true)
			time.Sleep(time.Nanosecond)
			paused(false)
			fail(true)
		}
		time.Sleep(30 * time.Second)
		if !l.Works("a", time.Now()) || l.Works("a", time.Now()) {
			t.Error("works after a pause: want the end of the pause once")
		}
		fail(false)
	})
}

// TestList_RemovesOldFailures: old failures are removed, and those that still count are kept.
func TestList_RemovesOldFailures(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewList[int](Rule{Failures: 1, First: time.Second})
		for i := range 10_000 {
			l.Failed(i, time.Now())
			time.Sleep(10 * time.Millisecond)
			if !l.Paused(i, time.Now()) {
				t.Fatalf("%d: got no pause after a failure", i)
			}
		}
		if got := len(l.known); got > 4*leastSweep {
			t.Errorf("got %d known things, want about the 100 of the last second", got)
		}
		l.Forget(9_999)
		if l.Paused(9_999, time.Now()) {
			t.Error("got a pause for a removed thing")
		}
	})
}

// TestFailed_TakesConstantTime: the cost of recording a failure does not grow with the number of
// keys that have failed.
func TestFailed_TakesConstantTime(t *testing.T) {
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
	// If the cost were proportional to the number of keys, the ratio would be 300. A paused
	// machine spoils some trials, but not the median.
	if got := ratios[trials/2]; got > 30 {
		t.Errorf("with %d things it takes %.0f times as long to record %d failures as with none, want about the same time", things, got, some)
	}
}
