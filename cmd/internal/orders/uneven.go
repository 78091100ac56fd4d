package orders

import (
	"encoding/json"
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/shuffle"
)

// evenEnough is the batch variance above which a plan gets a warning: sorted classes are spread
// more than twice as unevenly as by chance.
const evenEnough = 2

// Uneven returns a warning if batches of a plan would mix sorted classes badly, with advice. It
// returns "" if they mix well.
func Uneven(plan *shuffle.Plan, batch uint64, x *chunkindex.Index) string {
	v, known := plan.BatchVariance(batch)
	if !known || v.Worst() <= evenEnough {
		return ""
	}
	params := plan.Params()
	cure := "smaller batches or smaller chunks mix better"
	if window := plan.MixingWindow(batch, evenEnough); window > 0 {
		params.Window = window
		cure = fmt.Sprintf("'--window %d' brings that below %d with a cache of %s, or less with smaller chunks (index --chunk-size)",
			window, evenEnough, humanize.IBytes(shuffle.Memory(params, chunkLengths(x))))
	} else if params.Shuffle == shuffle.None {
		cure = "'--shuffle slot' mixes them"
	}
	return unevenLine(v.Worst(), batch, plan.Params().Describe(), cure)
}

// UnevenPlan does the same as Uneven with a gateway's description of a plan.
func UnevenPlan(plan map[string]any) string {
	var worst float64
	for _, name := range []string{"expected_batch_variance", "expected_batch_variance_10", "expected_batch_variance_100"} {
		if n, ok := plan[name].(json.Number); ok {
			x, _ := n.Float64()
			worst = max(worst, x)
		}
	}
	if worst <= evenEnough {
		return ""
	}
	params, _ := plan["parameters"].(map[string]any)
	cure := "'--shuffle slot' mixes them"
	if window, ok := params["window"]; ok {
		cure = fmt.Sprintf("a '--window' above %v mixes better, 'millrace plan DATASET' says what it costs", window)
	}
	return unevenLine(worst, params["batch_size"], fmt.Sprint(params["shuffle"]), cure)
}

// unevenLine formats the warning and the advice.
func unevenLine(worst float64, batch any, order, cure string) string {
	return fmt.Sprintf("millrace: if samples are stored sorted by class, batches of %v of shuffle %s vary %.3g times as much as random ones: %s", batch, order, worst, cure)
}

// unevenRanks returns a warning if single ranks would get badly mixed sorted classes.
func unevenRanks(rows []Sharing) string {
	worst := Sharing{worst: evenEnough}
	for _, r := range rows {
		if r.worst > worst.worst {
			worst = r
		}
	}
	if worst.worst <= evenEnough {
		return ""
	}
	return fmt.Sprintf("millrace: if samples are stored sorted by class, what one of %d ranks with %d homes gets varies %.3g times as much as random samples, which batch normalisation notices: fewer homes mix it better",
		worst.WorldSize, worst.Homes, worst.worst)
}
