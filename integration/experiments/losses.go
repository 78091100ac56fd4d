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

// losses runs measuring tests of the fault simulator: its gateways use a fake clock, which is
// available only in tests.
func losses() lab.Experiment {
	return lab.Experiment{
		Name:  "losses",
		Title: "A gateway lost, in virtual time: who waits, who reads again, who notices",
		Claim: "A node that fails stays within its task (DIESEL); its share is read again once, by its successors (HVAC); one peer of eight that is dead, stopped, cut off or sick delays the slowest of a thousand batches by less than a third.",
		Setting: []string{
			"real data paths, membership and protocol between gateways on simulated links and a simulated store, under a fake clock: no processor is measured",
			"the tests TestOneOfEight, TestOneOfEightIsSick, TestTwoJobs and TestRefill of integration/clustersim, which assert what stands below; every byte is compared with a model",
		},
		Arms: []lab.Arm{
			{Name: "well", What: "nothing happens"},
			{Name: "sick", What: "one gateway lives and is of no use for the whole epoch: without its store, readers wait 60 s or 2 s; 503 overloaded to every question; answers 300 or 450 ms late"},
			{Name: "kill, stop, partition", What: "one gateway ends, stands still, or is cut off in mid-epoch, for good"},
		},
		Pass: []lab.Mark{
			{Name: "tail", Want: "one of eight dead, stopped or cut off: of 4,096 batches the 99.9th percentile of the time of one at most 1.3 x, the slowest step of all ranks at most 1.1 s (a reader whose own gateway stands still waits 1 s), no wrong or missing byte", Fails: "wait for a dead peer until the deadline of the batch"},
			{Name: "sick", Want: "one of eight sick: of 16,384 batches the 99th and the 99.9th percentile at most 1.3 x, all steps together at most 2.5 x, store requests at most 1.25 x, for each of five sicknesses", Fails: "never eject a slow peer"},
			{Name: "apart", Want: "job B beside it: store requests unchanged, questions between its gateways within 1 %, 99th percentile within 5 %", Fails: "keep in a variable of the package which members failed"},
			{Name: "refill", Want: "the chunks of the lost gateway are read again, each once, whatever number of samples they hold", Fails: "fetch lost chunks at every gateway"},
		},
		Run: runLosses,
	}
}

// lossTests are the tests that measure, each for one mark.
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
		t := r.Table(name+".", "what the test says")
		for _, l := range lines {
			t.Row(l)
		}
		r.Logf("%s: %d figures", name, len(lines))
		found := "as the table says"
		if worst := worstRatio(lines); worst > 0 {
			found = fmt.Sprintf("%.3g x at the most", worst)
		}
		r.Judge(mark, passed && len(lines) > 0, found)
	}
	return nil
}

// The packages whose tests measure.
const (
	simulatedClusters = "github.com/millrace-data/millrace/integration/clustersim"
	limitedNetworks   = "github.com/millrace-data/millrace/integration/limited"
)

// figures runs one test of a package and returns the figures that it prints.
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

// worstRatio returns the largest "N x of healthy" among figures.
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
