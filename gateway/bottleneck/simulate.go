package bottleneck

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/millrace-data/millrace/internal/words"
)

// fromStore returns the bytes per second read from the store.
func (c *change) fromStore() float64 {
	return c.roseAll("millrace_store_read_bytes_total") / c.seconds()
}

// simulate returns a command that computes the effect of other cache sizes for the job of the rank
// that waits most.
func (c *change) simulate(disk bool) string {
	job := c.longest.Job
	rate, known := 0.0, 0.0 // rate of the ranks that read from this gateway, without their waits
	for _, r := range c.readers {
		if r.Job == job {
			rate += r.SamplesPerSecond / max(1-r.waiting(), 0.01)
			known++
		}
	}
	rate *= max(float64(job.WorldSize)/known, 1) // the other ranks read from other gateways
	var address string
	if c.now.Address != nil {
		address = c.now.Address(job.Dataset)
	}
	memory := c.now.Counters["millrace_budget_bytes"]
	parts := []string{
		"millrace simulate", words.Quoted(cmp.Or(address, "DATASET")), fmt.Sprintf("--world-size %d --rate %s/s --batch-size %d", job.WorldSize, digits(max(rate, 1)), job.BatchSize),
	}
	if job.Shuffle != "" {
		parts = append(parts, "--shuffle "+job.Shuffle)
	}
	if job.Window > 0 {
		parts = append(parts, fmt.Sprintf("--window %d", job.Window))
	}
	parts = append(parts, fmt.Sprintf("--cache-size %s,%s,%s", mebibytes(memory), mebibytes(2*memory), mebibytes(4*memory)))
	if disk {
		parts = append(parts, "--disk-cache-size 0,"+mebibytes(16*memory))
	}
	return strings.Join(append(parts, fmt.Sprintf("--store-bandwidth %sMB/s", digits(max(c.fromStore()/1e6, 0.1)))), " ")
}

// digits formats a number with three significant digits, without an exponent.
func digits(x float64) string {
	unit := math.Pow10(int(math.Floor(math.Log10(x))) - 2)
	return fmt.Sprintf("%.*f", max(0, int(-math.Floor(math.Log10(unit)))), math.Round(x/unit)*unit)
}

func mebibytes(x float64) string { return fmt.Sprintf("%.0fMiB", max(1, math.Round(x/(1<<20)))) }
