package integration_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(burstVariable); order != "" {
		if err := burst(order); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(harness.Main(m, ".."))
}

// long reports whether this is a long run.
func long() bool { return os.Getenv("MILLRACE_LONG") == "1" }
