package client

import (
	"context"
	"fmt"
	"regexp"
	"strings"
)

// KeepSchedule stores the later segments of mixtures whose first source is a dataset: of each, its
// first position and the weight of each source. It returns the digest for schedule= in their names.
func (c *Client) KeepSchedule(ctx context.Context, dataset string, segments [][]uint64) (digest string, err error) {
	var kept struct{ Schedule string }
	err = c.Post(ctx, datasetPath(dataset)+"/schedules", nil, map[string]any{"schedule": segments}, &kept)
	return kept.Schedule, err
}

// maxCompared limits the stored schedules that an error compares, the newest first.
const maxCompared = 64

var scheduleText = regexp.MustCompile(",schedule=[0-9a-f]*")

// change names the first position from which the weights of a mixture differ from those of a state,
// if the gateways know the schedule of the state. Otherwise it returns "".
func (c *Client) change(ctx context.Context, dataset string, opt Options, now *plan, s State) string {
	for n := range now.PlanDigests {
		if then := (plan{Samples: now.Samples, PlanDigests: now.PlanDigests[:n]}); then.digest(s.Epoch, s.Position) == s.Plan {
			return now.firstChange(&then)
		}
	}
	bare := scheduleText.ReplaceAllString(dataset, "")
	sources, mixed := strings.CutPrefix(bare, "mix:")
	var stored struct{ Schedules []string }
	if !mixed || c.JSON(ctx, datasetPath(sources[:strings.IndexAny(sources, ":(")])+"/schedules", nil, &stored) != nil {
		return ""
	}
	opt.BatchSize = 1 // any schedule of these sources allows it
	for _, digest := range stored.Schedules[:min(len(stored.Schedules), maxCompared)] {
		then, err := c.plan(ctx, bare+",schedule="+digest, &opt)
		if err == nil && then.digest(s.Epoch, s.Position) == s.Plan {
			return now.firstChange(&then)
		}
	}
	return ""
}

// firstChange names the first position at which the plan digests of two plans differ.
func (p *plan) firstChange(of *plan) string {
	a, b := p.PlanDigests, of.PlanDigests
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if len(a) == 0 || len(b) > 0 && b[0].Position < a[0].Position {
		a = b
	}
	return fmt.Sprintf("the weights differ from position %d of epoch %d on", a[0].Position%p.Samples, a[0].Position/p.Samples)
}
