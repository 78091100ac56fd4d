package orders

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

// fewRows is the number of rows below which an incomplete last row is a considerable part of an
// epoch, so it is reported.
const fewRows = 64

// LastRow reports the samples that never occur in the last, incomplete row of a slot order, and the
// samples that tail=drop omits. It returns "" if all rows are complete, or if there are many rows.
func LastRow(params shuffle.Params, samples, batch uint64) string {
	lanes := min(params.Window, samples)
	if params.Shuffle != shuffle.Slot || lanes == 0 || batch == 0 {
		return ""
	}
	whole, longer := samples/lanes, samples%lanes
	if longer == 0 || whole+1 >= fewRows {
		return ""
	}
	left, drop := samples%batch, "nothing"
	switch {
	case left == samples:
		drop = "all samples"
	case left > longer:
		drop = words.Count(left, "sample", "samples") + " an epoch, any of them, these more rarely"
	case left > 0:
		drop = words.Count(left, "sample", "samples") + " an epoch, never one of these"
	}
	return fmt.Sprintf("millrace: shuffle %s has %d rows, the last of %s: the %d samples of the other lanes never stand there; tail=drop leaves out %s",
		params.Describe(), whole+1, words.Count(longer, "longer lane", "longer lanes"), (lanes-longer)*whole, drop)
}

// LastRowOfPlan does the same as LastRow with a gateway's description of a plan. It returns ""
// unless the plan reads one dataset and each sample once.
func LastRowOfPlan(plan map[string]any) string {
	of, _ := plan["parameters"].(map[string]any)
	for _, other := range []any{plan["sources"], of["importance"], of["quarantine"]} {
		if other != nil {
			return ""
		}
	}
	number := func(v any) uint64 {
		n, _ := v.(json.Number)
		x, _ := strconv.ParseUint(n.String(), 10, 64)
		return x
	}
	name, _ := of["shuffle"].(string)
	return LastRow(shuffle.Params{Shuffle: name, Window: number(of["window"])}, number(plan["samples"]), number(of["batch_size"]))
}
