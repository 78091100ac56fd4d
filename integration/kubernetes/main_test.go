//go:build linux

package kubernetes_test

import (
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) {
	if plan := os.Getenv(containerVariable); plan != "" {
		becomeContainer(plan)
	}
	os.Setenv("CGO_ENABLED", "0") // as in the image, which has no libraries
	os.Exit(harness.Main(m, "../.."))
}
