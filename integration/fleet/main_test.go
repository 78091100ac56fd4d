package fleet_test

import (
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

// times returns how often a scenario does what it is named after.
func times(short, long int) int {
	if os.Getenv("MILLRACE_LONG") == "1" {
		return long
	}
	return short
}
