// Package seeds chooses the seeds of a random test: a few in an ordinary run, many in a long one.
// When tools/steady.py repeats a test, each run gets different seeds. The seeds of a failure can be
// repeated.
package seeds

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/race"
)

// repeats is the number of repeated runs that together use as many seeds as an ordinary run. A test
// that is repeated hundreds of times need not use all seeds each time.
const repeats = 20

// slower divides the number of seeds of an ordinary run under the race detector, which makes a test
// ten times slower. make unit also runs all seeds without the detector.
const slower = 4

// Range returns the seeds of a run: the first, and the one after the last. An ordinary run uses
// usual seeds, and a fourth of them under the race detector. A run with MILLRACE_LONG uses long
// seeds. All begin at 0. MILLRACE_TEST_STEADY=i uses the i-th of many short ranges, and
// MILLRACE_SEEDS=from:to only those seeds. few reports that there are fewer than usual seeds, too
// few to expect every possible outcome.
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
		tb.Fatalf("%s=%s: want a number, or FROM:TO for MILLRACE_SEEDS: %v", name, os.Getenv(name), err)
	}
	return n
}
