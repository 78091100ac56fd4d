package fleet_test

import (
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

// long reports whether the tests may take hours.
func long() bool { return os.Getenv("MILLRACE_LONG") == "1" }

// times returns short, or most in a long run: the number of repetitions of a scenario's fault.
func times(short, most int) int {
	if long() {
		return most
	}
	return short
}
