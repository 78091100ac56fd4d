package cli

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestPace: bytes of an earlier run do not count towards the rate of this one.
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

// TestBar_PrintsLinesWithoutTerminal: without a terminal, the log gets a line every half minute,
// and none after the job has ended.
func TestBar_PrintsLinesWithoutTerminal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lines := make(lineWriter, 1)
		a := New(nil, io.Discard, lines)
		wantLine := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			select {
			case got = <-lines:
			default:
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		b := a.NewBar("fetch")
		time.Sleep(29 * time.Second)
		wantLine("")
		time.Sleep(time.Second)
		wantLine("fetch: nothing done yet after 30s\n")
		b.Update(chunkindex.Progress{Done: 60 << 20, Total: 240 << 20})
		time.Sleep(30 * time.Second)
		wantLine("fetch: 60 MiB / 240 MiB  1.0 MiB/s  left 3m0s\n")
		b.End()
		time.Sleep(time.Minute)
		wantLine("")
	})
}

// lineWriter sends each write to a channel.
type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
