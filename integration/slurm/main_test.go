//go:build linux

package slurm_test

import (
	"os"
	"testing"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }
