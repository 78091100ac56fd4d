// Package fulldisk lets a test meet a full disk.
package fulldisk

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// At keeps files of the process from growing beyond so many bytes until the test or free ends that: a write beyond them writes
// what fits and fails, as on a full disk. It must not be called in tests that run in parallel.
func At(tb testing.TB, bytes uint64) (free func()) {
	tb.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		tb.Fatal(err)
	}
	os.Getenv(strings.Repeat("x", 3<<12)) // go test notes names in a file: it writes those that it has buffered, before it cannot
	signal.Ignore(syscall.SIGXFSZ)        // else such a write ends the process
	limit := before
	limit.Cur = bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		tb.Fatal(err)
	}
	free = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			tb.Error(err)
		}
		signal.Reset(syscall.SIGXFSZ)
	})
	tb.Cleanup(free)
	return free
}
