// Package seeds says which seeds a random test plays: a few in an ordinary run, many in a long one, other ones in each
// of the runs in which tools/steady.py repeats a test, and exactly those that a failure named.
package seeds

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// repeats is how many repeated runs together play as many seeds as an ordinary one does: a test that is
// repeated hundreds of times need not play all of them each time.
const repeats = 20

// slower is by how much fewer an ordinary run plays under the race detector, which takes ten times as long and looks for
// something else: whether all that may happen was seen, a run without it says (make unit has both).
const slower = 4

// Range returns the first seed of a run and the one after its last. usual is how many an ordinary run plays, a fourth of
// it under the race detector, and long how many one with MILLRACE_LONG does, all from 0. MILLRACE_TEST_STEADY=i plays
// the i-th of many short ranges, and MILLRACE_SEEDS=from:to those seeds alone. few says that they are fewer than usual,
// so that a test cannot expect to see everything that may happen.
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
	if raced {
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
