package cli

import (
	"testing"
	"time"
)

// What an earlier run has done makes this one no faster.
func TestPace(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		done, kept, total int64
		took              time.Duration
		want              string
	}{
		{0, 0, 100 * mib, time.Second, ""},
		{90 * mib, 90 * mib, 100 * mib, time.Second, ""},
		{10 * mib, 0, 100 * mib, 5 * time.Second, "  2.0 MiB/s  left 45s"},
		{91 * mib, 90 * mib, 100 * mib, 2 * time.Second, "  512 KiB/s  left 18s"},
		{100 * mib, 90 * mib, 100 * mib, 10 * time.Second, "  1.0 MiB/s  left 0s"},
		{mib, 0, 100 * mib, 0, ""},
	} {
		if got := pace(c.done, c.kept, c.total, c.took); got != c.want {
			t.Errorf("%d of %d, %d kept, in %s: got %q, want %q", c.done, c.total, c.kept, c.took, got, c.want)
		}
	}
}
