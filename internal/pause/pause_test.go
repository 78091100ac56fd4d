package pause

import (
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/bubble"
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
		if l.Works("a") {
			t.Error("works: got that it had a pause")
		}
		fail(true)
		fail(false) // it began before
		for _, pause := range []time.Duration{10, 20, 30, 30} {
			paused(true)
			time.Sleep(pause*time.Second - 1)
			paused(true)
			time.Sleep(1)
			paused(false)
			fail(true)
		}
		time.Sleep(30 * time.Second)
		if !l.Works("a") || l.Works("a") {
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
