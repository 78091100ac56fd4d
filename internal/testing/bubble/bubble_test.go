package bubble

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/race"
)

// TestBubblesHaveOneProcessor: a bubble has one processor under the race detector, also while other
// bubbles run. All processors are back when the last one ends.
func TestBubblesHaveOneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(before + 3))
	want := before + 3
	if race.Enabled {
		want = 1
	}
	t.Run("all", func(t *testing.T) {
		for range 2 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				Test(t, func(t *testing.T) {
					time.Sleep(time.Hour) // advances the bubble's clock
					synctest.Wait()
					if got := runtime.GOMAXPROCS(0); got != want {
						t.Errorf("got %d processors, want %d", got, want)
					}
				})
			})
		}
	})
	if got := runtime.GOMAXPROCS(0); got != before+3 {
		t.Errorf("got %d processors after the bubbles, want %d", got, before+3)
	}
}
