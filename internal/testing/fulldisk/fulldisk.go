// Package fulldisk simulates a full disk in tests.
package fulldisk

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// At limits the size of the files of the process to the given number of bytes, until the test ends
// or free is called. A write beyond the limit writes the bytes that fit and fails, as on a full
// disk. At must not be called in tests that run in parallel.
func At(tb testing.TB, bytes uint64) (free func()) {
	tb.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		tb.Fatal(err)
	}
	os.Getenv(strings.Repeat("x", 3<<12)) // go test records environment variables in a file; a long name makes it flush them before the limit applies
	signal.Ignore(syscall.SIGXFSZ)        // otherwise a write beyond the limit ends the process
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
