package clustersim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/history"
)

// told returns the events of a history as lines, sorted by time and then by text. Go's runtime
// draws the order of fake timers that end at the same instant (runtime/time.go), independently of
// the seed.
func told(events []history.Event) (lines []string) {
	for _, e := range events {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s %s %d bytes %.6x job %q", e.End.Format("04:05.000000000"), e.Client, e.URL, e.Outcome, e.Reason, e.Length, e.SHA256, e.Job))
	}
	slices.Sort(lines)
	return lines
}

// taken returns the batches that each rank received, in the rank's order. Only the seed determines
// them.
func taken(events []history.Event) (lines []string) {
	for _, e := range events {
		if e.Job != "" {
			rank, _, _ := strings.Cut(e.Client, " at ")
			lines = append(lines, fmt.Sprintf("%s %s %d bytes %.6x", rank, e.URL, e.Length, e.SHA256))
		}
	}
	slices.SortStableFunc(lines, func(a, b string) int {
		rank := func(s string) string { return strings.Join(strings.Fields(s)[:2], " ") }
		return strings.Compare(rank(a), rank(b))
	})
	return lines
}

// firstDifference describes the first difference of two logs, with the lines before it, or returns
// "" if there is none.
func firstDifference(a, b []string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	if n == len(a) && n == len(b) {
		return ""
	}
	at := func(of []string) string {
		if n < len(of) {
			return of[n]
		}
		return "nothing more"
	}
	return fmt.Sprintf("event %d of %d and %d\n  %s\nfirst run:  %s\nsecond run: %s", n, len(a), len(b), strings.Join(a[max(0, n-3):n], "\n  "), at(a), at(b))
}

// TestRun_OneSeedTwice plays histories twice and compares them event by event. The batches of each
// rank must be the same. Everything else is the same to the nanosecond as long as nothing depends
// on the order of simultaneous events. Examples are which request gets the last fetcher, which
// gateway is tried first, and which response has arrived when a process is killed.
func TestRun_OneSeedTwice(t *testing.T) {
	shelf := newShelf(t)
	const histories = 80 // enough that random variation cannot reach the bound
	same := 0
	for seed := range uint64(histories) {
		h := Draw(seed, shelf)
		first, second := play(t, h), play(t, h)
		if first.Ended["too large"] == 0 { // whether a gateway has memory depends on which request arrives first
			if d := firstDifference(taken(first.Events), taken(second.Events)); d != "" {
				t.Errorf("seed %d: a rank took something else: %s", seed, d)
			}
		}
		d := firstDifference(told(first.Events), told(second.Events))
		if d == "" {
			same++
			continue
		}
		t.Logf("seed %d parts at an instant: %s", seed, d)
	}
	t.Logf("figure: %d of %d histories are the same event by event when played again", same, histories)
	if same < histories/3 {
		t.Errorf("got %d of %d histories that are the same when played again, want a third at least", same, histories)
	}
}
