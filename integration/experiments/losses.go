package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/integration/experiments/lab"
)

// losses runs measuring tests of the fault simulator. They are tests because the simulator's
// gateways use a fake clock, which only tests can use.
func losses() lab.Experiment {
	return lab.Experiment{
		Name:  "losses",
		Title: "A lost gateway, in virtual time: waits, repeated reads and effects on other jobs",
		Claim: "A node failure affects only its task (DIESEL). Its successors read its share again once (HVAC). One peer of eight that is dead, stopped, cut off or sick delays the slowest of a thousand batches by less than a third.",
		Setting: []string{
			"real data paths, membership and protocol between gateways on simulated links and a simulated store, with a fake clock: no processor is measured",
			"the tests TestOneOfEight, TestOneOfEightIsSick, TestTwoJobs and TestRefill of integration/clustersim assert the results below; every byte is compared with a model",
		},
		Arms: []lab.Arm{
			{Name: "well", What: "no failure"},
			{Name: "sick", What: "one gateway runs but fails for the whole epoch. Its store is unreachable (readers wait 60 s or 2 s), or it answers each request with 503 overloaded, or 300 or 450 ms late"},
			{Name: "kill, stop, partition", What: "in mid-epoch one gateway is killed, stopped or cut off, permanently"},
		},
		Pass: []lab.Mark{
			{Name: "tail", Want: "one of eight dead, stopped or cut off: p99.9 of 4,096 batches at most 1.3 x, slowest step at most 1.1 s, no wrong or missing byte. Readers of a stopped gateway wait 1 s", Fails: "wait for a dead peer until the batch's deadline"},
			{Name: "sick", Want: "one of eight sick, five ways: p99 and p99.9 of 16,384 batches at most 1.3 x, all steps at most 2.5 x, store requests at most 1.25 x", Fails: "never eject a slow peer"},
			{Name: "apart", Want: "job B at the same time: store requests unchanged, requests between its gateways within 1 %, p99 within 5 %", Fails: "record failed members in a package variable"},
			{Name: "refill", Want: "the chunks of the lost gateway are read again, each once, regardless of their number of samples", Fails: "fetch lost chunks at every gateway"},
		},
		Run: runLosses,
	}
}

// lossTests returns the name of the measuring test for each mark.
func lossTests() map[string]string {
	return map[string]string{"tail": "TestOneOfEight", "sick": "TestOneOfEightIsSick", "apart": "TestTwoJobs", "refill": "TestRefill"}
}

func runLosses(ctx context.Context, r *lab.Report) error {
	for _, mark := range []string{"tail", "sick", "apart", "refill"} {
		name := lossTests()[mark]
		lines, passed, err := figures(ctx, simulatedClusters, name)
		if err != nil {
			return err
		}
		t := r.Table(name+".", "test output")
		for _, l := range lines {
			t.Row(l)
		}
		r.Logf("%s: %d figures", name, len(lines))
		found := "see the table"
		if worst := worstRatio(lines); worst > 0 {
			found = fmt.Sprintf("maximum %.3g x", worst)
		}
		r.Judge(mark, passed && len(lines) > 0, found)
	}
	return nil
}

// Packages with measuring tests.
const (
	simulatedClusters = "github.com/millrace-data/millrace/integration/clustersim"
	limitedNetworks   = "github.com/millrace-data/millrace/integration/limited"
)

// figures runs one test of a package, and returns the figures that it prints and whether it passed.
func figures(ctx context.Context, pack, name string, env ...string) (lines []string, passed bool, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=1h", "-v", "-run", "^"+name+"$", pack)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	for line := range strings.Lines(out.String()) {
		if _, figure, found := strings.Cut(line, " figure: "); found {
			lines = append(lines, strings.TrimSpace(figure))
		}
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) && len(lines) > 0 {
		return lines, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("test %s: %w: %s", name, err, strings.TrimSpace(out.String()))
	}
	return lines, true, nil
}

// worstRatio returns the largest ratio "N x of healthy" in lines.
func worstRatio(lines []string) (worst float64) {
	ratio := regexp.MustCompile(`([0-9.]+) x of healthy`)
	for _, l := range lines {
		if m := ratio.FindStringSubmatch(l); m != nil {
			if x, err := strconv.ParseFloat(m[1], 64); err == nil {
				worst = max(worst, x)
			}
		}
	}
	return worst
}
