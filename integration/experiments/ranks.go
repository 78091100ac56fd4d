package main

import (
	"context"

	"github.com/millrace-data/millrace/integration/experiments/lab"
)

// ranks runs a test with real ranks of torch.distributed, a gateway and a cost table.
func ranks() lab.Experiment {
	return lab.Experiment{
		Name:  "ranks",
		Title: "Equal work for real ranks: steps that take as long as the costs of their samples",
		Claim: "The step times that costs predict are those that ranks measure. A job that is killed resumes on another number of ranks, with each sample read once and shares still equal.",
		Setting: []string{
			"a gateway (`millrace serve`), and ranks (`torch.distributed` with gloo, `millrace.torch.DataLoader`) as processes of this machine. A rank sleeps for 20 us for each byte of its texts, then waits for the others",
			"2,048 texts of log-normal lengths with sigma 0.9, batches of 64, `shuffle=full`; the cost table is `millrace cost tokens --from 'len(txt)'`",
			"the test TestBalancedRanks of integration asserts the counts; the ideal is a step whose ranks have equal costs",
		},
		Arms: []lab.Arm{
			{Name: "contiguous", What: "shares of equal numbers of samples"},
			{Name: "balance", What: "`balance=cost:tokens`"},
			{Name: "bucket", What: "the same with `bucket=16`; also killed with SIGKILL, and resumed on three ranks in mid-epoch"},
		},
		Pass: []lab.Mark{
			{Name: "even", Want: "by the costs that ranks received, over the ideal: contiguous at least 1.2, balance at most 1.1, bucket at most 1.02", Fails: "omit the exchanges after the longest samples are dealt", Measured: true},
			{Name: "once", Want: "killed and resumed on other ranks: every sample once, and at most 1.02 x the ideal", Fails: "divide the whole batch after a resume within it", Measured: true},
		},
		Run: runRanks,
	}
}

func runRanks(ctx context.Context, r *lab.Report) error {
	lines, passed, err := figures(ctx, "github.com/millrace-data/millrace/integration", "TestBalancedRanks")
	if err != nil {
		return err
	}
	t := r.Table("TestBalancedRanks.", "test output")
	for _, l := range lines {
		t.Row(l)
	}
	r.Judge("even", passed && len(lines) == 4, "see the table")
	r.Judge("once", passed && len(lines) == 4, "see the table")
	return nil
}
