package leaks

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// recorder is a test that records its errors, and whose end can be simulated.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool              { return len(r.errors) > 0 }
func (r *recorder) Error(args ...any)         { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }

func (r *recorder) end() {
	for _, f := range r.cleanups {
		f()
	}
}

func TestCheck_ReportsDescriptors(t *testing.T) {
	for _, closed := range []bool{true, false} {
		r := &recorder{TB: t}
		Check(r)
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if closed {
			f.Close()
		}
		r.end()
		f.Close()
		if got := strings.Join(r.errors, "\n"); strings.Contains(got, "descriptors left open") == closed || closed != (got == "") {
			t.Errorf("file closed: %t: got %q", closed, got)
		}
	}
}

func TestCheck_ReportsGoroutines(t *testing.T) {
	for _, ended := range []bool{true, false} {
		r := &recorder{TB: t}
		Check(r)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { defer close(done); <-stop }()
		if ended {
			close(stop)
		}
		r.end()
		if got := strings.Join(r.errors, "\n"); strings.Contains(got, "TestCheck_ReportsGoroutines") == ended {
			t.Errorf("goroutine ended: %t: got %q", ended, got)
		}
		if !ended {
			close(stop)
		}
		<-done
	}
}
