package harness

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPython checks that the environment of the Python tests has torch with a matching NumPy, and
// the libraries of every format and trainer.
func TestPython(t *testing.T) {
	t.Parallel()
	path, env := Python(t)
	const program = `
import warnings; warnings.simplefilter("ignore")
import numpy, torch, webdataset, streaming, litdata, tfrecord, torchdata.stateful_dataloader, accelerate, lightning.pytorch, pyarrow, millrace
print(torch.from_numpy(numpy.arange(4)).sum().item())`
	cmd := exec.CommandContext(t.Context(), path, "-c", program)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run %s: %v\n%s", path, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if got, want := lines[len(lines)-1], "6"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
