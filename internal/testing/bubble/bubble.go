// Package bubble runs tests under the fake clock of testing/synctest.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/testing/race"
)

// Test calls synctest.Test. Under the race detector it limits the program to one processor until
// the test ends: Go 1.26 runs the timers of a bubble under one context of the detector. Two timers
// that fire on two processors at once corrupt that context, which ends the process with
// "ThreadSanitizer: CHECK failed" (golang/go#78156).
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if race.Enabled {
		oneProcessor()
		defer allProcessors()
	}
	synctest.Test(t, f)
}

//nolint:gochecknoglobals // the processors of the process are global
var (
	mu      sync.Mutex // guards bubbles and before
	bubbles int        // number of running bubbles
	before  int        // GOMAXPROCS before the first bubble
)

func oneProcessor() {
	mu.Lock()
	defer mu.Unlock()
	if bubbles++; bubbles == 1 {
		before = runtime.GOMAXPROCS(1)
	}
}

func allProcessors() {
	mu.Lock()
	defer mu.Unlock()
	if bubbles--; bubbles == 0 {
		runtime.GOMAXPROCS(before)
	}
}
