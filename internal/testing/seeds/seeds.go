// Package seeds says which seeds a random test plays: a few in an ordinary run, many in a long one, other ones in each
// of the runs in which tools/steady.py repeats a test, and exactly those that a failure named.
package seeds

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/race"
)

// repeats is how many repeated runs together play as many seeds as an ordinary one does: a test that is
// repeated hundreds of times need not play all of them each time.
const repeats = 20

// slower divides the number of seeds of an ordinary run under the race detector, which makes a test ten times slower.
// make unit also plays all of them without it.
const slower = 4

// Range returns the seeds that a run plays: the first, and the one after the last. An ordinary run plays usual seeds,
// under the race detector a fourth of them; a run with MILLRACE_LONG plays long seeds. All begin at 0.
// MILLRACE_TEST_STEADY=i plays the i-th of many short ranges, and MILLRACE_SEEDS=from:to those seeds alone. few is true
// where the range has fewer than usual seeds, too few to expect that each possible outcome occurs.
func Range(tb testing.TB, usual, long uint64) (from, to uint64, few bool) {
	tb.Helper()
	if s := os.Getenv("MILLRACE_SEEDS"); s != "" {
		first, last, _ := strings.Cut(s, ":")
		from, to = number(tb, "MILLRACE_SEEDS", first), number(tb, "MILLRACE_SEEDS", last)
		return from, to, to < from+usual
	}
	if s := os.Getenv("MILLRACE_TEST_STEADY"); s != "" {
		n := max(1, usual/repeats)
		run := number(tb, "MILLRACE_TEST_STEADY", s)
		return run * n, (run + 1) * n, true
	}
	if os.Getenv("MILLRACE_LONG") != "" {
		return 0, long, false
	}
	if race.Enabled {
		return 0, max(1, usual/slower), true
	}
	return 0, usual, false
}

func number(tb testing.TB, name, s string) uint64 {
	tb.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		tb.Fatalf("%s=%s: want numbers, FROM:TO for MILLRACE_SEEDS: %v", name, os.Getenv(name), err)
	}
	return n
}
