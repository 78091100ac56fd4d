package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// The job of TestBalancedRanks.
const (
	balancedSamples = 2048
	balancedBatch   = 64                    // of all ranks
	balancedUnit    = 20 * time.Microsecond // that a rank sleeps for a cost of 1
	balancedKilled  = 12                    // steps after which the ranks are killed
)

// balancedArm is a way to divide batches, by the parameters of the plan.
type balancedArm struct {
	Name    string `json:"name"`
	Balance string `json:"balance,omitempty"`
	Bucket  int    `json:"bucket,omitempty"`
}

// balancedPlace is the state of a job.
type balancedPlace struct{ Epoch, Position int }

// balancedStep is the line that a rank writes after a step.
type balancedStep struct {
	Keys    []string
	Cost    int
	Seconds float64
	State   balancedPlace // after the step
}

// TestBalancedRanks runs jobs of torch.distributed whose steps sleep in proportion to the
// costs of their samples, with a gateway and a cost table: whole epochs of three arms, then an epoch whose ranks are killed and
// resumed by another number of ranks. Each sample is read exactly once, and steps are as even as
// plan says.
func TestBalancedRanks(t *testing.T) {
	store := harness.Open(t, "dir")
	files, costs := textFiles(t, balancedSamples)
	harness.Pack(t, store, files, "texts", "--chunk-size", "256KiB")
	harness.MustRun(t, store, "cost", "tokens", store.Dataset("texts"), "--from", "len(txt)")
	j := &balancedJob{url: harness.Serve(t, store, "texts").URL, dir: t.TempDir()}
	arms := []balancedArm{{Name: "contiguous"}, {Name: "balance", Balance: "cost:tokens"}, {Name: "bucket", Balance: "cost:tokens", Bucket: 16}}
	j.finish(t, j.start(t, 4, false, arms...))
	var planned struct {
		Work struct{ Shares []struct{ Time float64 } }
	}
	text := harness.MustRun(t, store, "plan", store.Dataset("texts"), "--shuffle", "full", "--batch-size", strconv.Itoa(balancedBatch),
		"--balance", "cost:tokens", "--bucket", strconv.Itoa(arms[2].Bucket), "--world-size", "4", "--json")
	if err := json.Unmarshal([]byte(text), &planned); err != nil || len(planned.Work.Shares) != len(arms) {
		t.Fatalf("plan: got %s (%v), want a row for each arm", text, err)
	}
	ratios := map[string]float64{}
	for i, arm := range arms {
		steps := j.steps(t, arm.Name, 4)
		once(t, arm.Name, costs, steps)
		ratios[arm.Name] = stepTimes(t, arm.Name+", 4 ranks", steps)
		if want := planned.Work.Shares[i].Time; math.Abs(ratios[arm.Name]-want) > 1e-4 {
			t.Errorf("%s: got an epoch of %.4f of the ideal, plan says %.4f", arm.Name, ratios[arm.Name], want)
		}
	}
	if ratios["contiguous"] < 1.2 || ratios["balance"] > 1.1 || ratios["bucket"] > 1.02 {
		t.Errorf("epochs over the ideal: got %v, want at least 1.2 without balance, at most 1.1 with it, and at most 1.02 with buckets", ratios)
	}

	killed := balancedArm{"resumed", arms[2].Balance, arms[2].Bucket}
	ranks := j.start(t, 4, false, killed)
	ranks[0].Ready(t, func(context.Context) error {
		if at := j.saved(t); at.Epoch > 0 || at.Position < balancedKilled*balancedBatch { // the former job's state at first
			return fmt.Errorf("the state is %v", at)
		}
		return nil
	})
	for _, r := range ranks {
		r.Kill()
	}
	saved := j.saved(t)
	read := j.steps(t, killed.Name, 4)
	j.finish(t, j.start(t, 3, true, killed))
	before := read[:saved.Position/balancedBatch]
	after := j.steps(t, killed.Name, 3)
	once(t, "killed and resumed", costs, slices.Concat(before, after))
	if ratio := stepTimes(t, fmt.Sprintf("bucket, killed after %d steps of 4 ranks, resumed on 3", len(before)), after); ratio > 1.02 || len(after) == 0 {
		t.Errorf("resumed at %v: got %d steps and %.3f of the ideal, want at most 1.02", saved, len(after), ratio)
	}
}

// textFiles writes texts of log-normal lengths, and returns the lengths by key.
func textFiles(t *testing.T, n int) (dir string, lengths map[string]int) {
	t.Helper()
	dir, lengths = t.TempDir(), map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		key := fmt.Sprintf("%05d", i)
		lengths[key] = 1 + int(200*math.Exp(.9*random.NormFloat64()))
		if err := os.WriteFile(filepath.Join(dir, key+".txt"), make([]byte, lengths[key]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, lengths
}

// balancedJob is a job whose ranks write their steps and its state to a directory.
type balancedJob struct{ url, dir string }

func (j *balancedJob) start(t *testing.T, world int, resume bool, arms ...balancedArm) (ranks []*harness.Process) {
	t.Helper()
	python, env := harness.Python(t)
	_, port, err := net.SplitHostPort(harness.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"url": j.url, "dataset": "texts", "batch_size": balancedBatch, "arms": arms, "resume": resume, "log": j.dir,
		"state": filepath.Join(j.dir, "state"), "seconds_per_cost": balancedUnit.Seconds(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for rank := range world {
		own := append(slices.Clip(env), "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port, "GLOO_SOCKET_IFNAME=lo", fmt.Sprintf("WORLD_SIZE=%d", world), fmt.Sprintf("RANK=%d", rank))
		ranks = append(ranks, harness.Start(t, fmt.Sprintf("rank %d of %d", rank, world), python, own, "-W", "ignore", filepath.Join("python", "balanced.py"), string(text)))
	}
	return ranks
}

// finish waits until all ranks have read all arms.
func (j *balancedJob) finish(t *testing.T, ranks []*harness.Process) {
	t.Helper()
	for _, r := range ranks {
		select {
		case <-r.Ended():
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s: still running after 5 minutes", r.Name)
		}
		if !strings.Contains(r.Log(), "all arms ended") {
			t.Fatalf("%s failed:\n%s", r.Name, r.Log())
		}
	}
}

// steps returns the steps that all ranks have recorded, each as the lines of its ranks.
func (j *balancedJob) steps(t *testing.T, arm string, world int) (steps [][]balancedStep) {
	t.Helper()
	for rank := range world {
		text, err := os.ReadFile(filepath.Join(j.dir, fmt.Sprintf("%s-%d-%d", arm, world, rank)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		lines = lines[:len(lines)-1] // empty, or cut by a kill
		if rank == 0 {
			steps = make([][]balancedStep, len(lines))
		}
		steps = steps[:min(len(steps), len(lines))]
		for i := range steps {
			var s balancedStep
			if err := json.Unmarshal([]byte(lines[i]), &s); err != nil {
				t.Fatal(err)
			}
			steps[i] = append(steps[i], s)
		}
	}
	return steps
}

// saved returns the state from which the job resumes.
func (j *balancedJob) saved(t *testing.T) (at balancedPlace) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "state"))
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// once checks that steps have each sample exactly once, with its cost.
func once(t *testing.T, name string, costs map[string]int, steps [][]balancedStep) {
	t.Helper()
	times := map[string]int{}
	for _, s := range slices.Concat(steps...) {
		want := 0
		for _, key := range s.Keys {
			times[key]++
			want += costs[key]
		}
		if s.Cost != want {
			t.Errorf("%s: got a cost of %d for %v, want %d", name, s.Cost, s.Keys, want)
		}
	}
	for key := range costs {
		if times[key] != 1 {
			t.Errorf("%s: got sample %s %d times, want once", name, key, times[key])
		}
	}
	if len(times) != len(costs) {
		t.Errorf("%s: got %d samples, want %d", name, len(times), len(costs))
	}
}

// stepTimes logs the time of steps, and returns the sum of the steps' slowest ranks by their costs, over
// that of equal ranks.
func stepTimes(t *testing.T, name string, steps [][]balancedStep) float64 {
	t.Helper()
	slow, equal, measured := 0.0, 0.0, 0.0
	for _, ranks := range steps {
		slowest, seconds := 0, 0.0
		for _, s := range ranks {
			slowest, seconds = max(slowest, s.Cost), max(seconds, s.Seconds)
			equal += float64(s.Cost) / float64(len(ranks))
		}
		slow, measured = slow+float64(slowest), measured+seconds
	}
	ideal := equal * balancedUnit.Seconds()
	t.Logf("figure: %s: %d steps, mean %.1f ms, ideal %.1f ms; %.3f x by the costs, %.3f x measured",
		name, len(steps), 1000*measured/float64(len(steps)), 1000*ideal/float64(len(steps)), slow/equal, measured/ideal)
	return slow / equal
}
