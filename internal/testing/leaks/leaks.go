// Package leaks checks that a test ends its goroutines and closes its file descriptors.
package leaks

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var checked sync.Map //nolint:gochecknoglobals // the tests of a process are global

// Check fails tb at its end if it then has goroutines or descriptors that did not exist when Check
// was called. Call it before any other cleanup is registered, and never in tests that run in
// parallel. A test that has already failed is not checked, and further calls for the same test do
// nothing.
func Check(tb testing.TB) {
	tb.Helper()
	if _, again := checked.LoadOrStore(tb, true); again {
		return
	}
	others, before := goleak.IgnoreCurrent(), descriptors(tb)
	tb.Cleanup(func() {
		checked.Delete(tb)
		if tb.Failed() {
			return
		}
		var err error
		for range 5 { // five attempts of half a second, because a busy machine is slow to end goroutines
			if err = goleak.Find(others); err == nil {
				break
			}
		}
		if err != nil {
			tb.Error(err)
		}
		left := slices.DeleteFunc(descriptors(tb), func(d string) bool { return slices.Contains(before, d) })
		if len(left) > 0 {
			tb.Errorf("descriptors left open: %q", left)
		}
	})
}

// descriptors returns the open descriptors of the process, on Linux with the name of each file.
func descriptors(tb testing.TB) []string {
	tb.Helper()
	r, w, err := os.Pipe() // the first pipe makes the runtime open permanent descriptors of its own
	if err != nil {
		tb.Fatal(err)
	}
	r.Close()
	w.Close()
	dir := "/dev/fd"
	if runtime.GOOS == "linux" {
		dir = "/proc/self/fd"
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	var open []string
	for _, e := range entries {
		name := e.Name()
		if runtime.GOOS == "linux" {
			file, err := os.Readlink(filepath.Join(dir, name))
			if err != nil {
				continue // the descriptor with which the directory is listed
			}
			name += " " + file
		}
		open = append(open, name)
	}
	return open
}
