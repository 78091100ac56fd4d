package harness

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Python returns the interpreter of the environment that tools/python.sh creates, and the complete
// environment of a child that runs it. The child can import the Python client of this tree,
// contacts no hub, and computes with one thread.
func Python(t testing.TB) (path string, env []string) {
	t.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		t.Fatal("find Python: the place of this source file is unknown")
	}
	root := filepath.Join(filepath.Dir(file), "..", "..")
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "tools", "python.sh"), "--path")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find Python: %v: %s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), append(baseEnv(t),
		"PYTHONPATH="+filepath.Join(root, "client", "python"), "PYTHONNOUSERSITE=1",
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_VERBOSITY=error", "TRANSFORMERS_NO_ADVISORY_WARNINGS=1",
		"DO_NOT_TRACK=1", "OMP_NUM_THREADS=1",
	)
}
