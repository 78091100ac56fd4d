package integration_test

import (
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "..")) }

// long reports whether the long counts are asked for.
func long() bool { return os.Getenv("MILLRACE_LONG") == "1" }
