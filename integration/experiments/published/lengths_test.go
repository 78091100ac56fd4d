package published_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/integration/experiments/published"
	"github.com/millrace-data/millrace/integration/harness"
)

// TestLengthGrouped_AgreesWithTransformers runs the library's own function, whose random permutation
// is replaced by the given one.
func TestLengthGrouped_AgreesWithTransformers(t *testing.T) {
	const program = `
import json, sys
from transformers import trainer_pt_utils as u
class Permutation:
    def __init__(self, places): self.places = places
    def __getitem__(self, part): return Permutation(self.places[part])
    def tolist(self): return self.places
for job in json.load(sys.stdin):
    u.torch.randperm = lambda n, generator: Permutation(job["permuted"])
    print(json.dumps(u.get_length_grouped_indices(job["lengths"], job["batch"])))`
	type job struct {
		Permuted []int    `json:"permuted"`
		Lengths  []uint32 `json:"lengths"`
		Batch    int      `json:"batch"`
	}
	var jobs []job
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 7, 64, 1000, 5000} {
		for _, batch := range []int{1, 16, 33} {
			j := job{Permuted: random.Perm(n), Lengths: make([]uint32, n), Batch: batch}
			for i := range j.Lengths {
				j.Lengths[i] = random.Uint32N(100) // many are equal
			}
			jobs = append(jobs, j)
		}
	}
	path, env := harness.Python(t)
	in, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", program)
	cmd.Env, cmd.Stdin = env, strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run get_length_grouped_indices: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(jobs) {
		t.Fatalf("got %d orders, want %d", len(lines), len(jobs))
	}
	for i, j := range jobs {
		got := published.LengthGrouped(slices.Clone(j.Permuted), j.Lengths, j.Batch)
		if want := lines[i]; strings.ReplaceAll(fmt.Sprint(got), " ", ", ") != want {
			t.Errorf("%d samples, batches of %d: got %v, want %s", len(j.Lengths), j.Batch, got, want)
		}
	}
}
