package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/millrace-data/millrace/integration/provenance"
)

// quantity is the unit of a figure, with the factor that converts to it.
type quantity struct {
	unit  string
	scale float64
}

// Quantities of the arms' figures.
func gigabytes() quantity      { return quantity{"GB/s", 1e-9} }
func megabytes() quantity      { return quantity{"MB", 1e-6} }
func perSecond() quantity      { return quantity{"samples/s", 1} }
func nanoPerKB() quantity      { return quantity{"ns/KB", 1e12} }
func microPerSample() quantity { return quantity{"us/sample", 1e6} }
func seconds() quantity        { return quantity{"s", 1} }
func times() quantity          { return quantity{"x", 1} }

// Row is one figure: the median of its rounds with quartiles.
type Row struct {
	What      string     `json:"what"`
	Arms      []Arm      `json:"arms,omitempty"` // both sides of a ratio
	Value     float64    `json:"value"`
	Unit      string     `json:"unit"`
	Quartiles [2]float64 `json:"quartiles"`
	Bound     *float64   `json:"bound,omitempty"` // absent: shown but not judged
	AtMost    bool       `json:"at_most,omitempty"`
	Met       bool       `json:"met"`

	Note *provenance.Note `json:"note,omitempty"` // why the mark was missed
}

// Arm is one side of a ratio.
type Arm struct {
	Name   string  `json:"name"`
	Median float64 `json:"median"`
	Unit   string  `json:"unit"`
}

// median returns the median of an unsorted list, or 0 for an empty one.
func median(x []float64) float64 { return quantile(x, 0.5) }

func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	at := q * float64(len(x)-1)
	lo := int(at)
	hi := min(lo+1, len(x)-1)
	return x[lo] + (x[hi]-x[lo])*(at-float64(lo))
}

// table holds the rows of each goal.
type table map[int][]Row

// paired adds a row from rounds of two arms: Millrace relative to the yardstick. The goal and the
// row's name determine its mark.
func (t table) paired(goal int, what, yard string, ours, theirs []float64, q quantity) {
	t.ratio(goal, what, "Millrace", yard, ours, theirs, q)
}

// ratio adds a row from rounds of two arms: the first relative to the second.
func (t table) ratio(goal int, what, first, second string, a, b []float64, q quantity) {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = a[i] / b[i]
	}
	t.add(goal, what+", against "+second, "x", ratios,
		Arm{first, rounded(median(a) * q.scale), q.unit}, Arm{second, rounded(median(b) * q.scale), q.unit})
}

// add adds a row with one value from each round.
func (t table) add(goal int, what, unit string, values []float64, arms ...Arm) {
	r := Row{
		What: what, Arms: arms, Unit: unit, Value: rounded(median(values)),
		Quartiles: [2]float64{rounded(quantile(values, 0.25)), rounded(quantile(values, 0.75))},
	}
	if m, ok := markOf(goal, what); ok {
		r.judge(m)
	}
	t[goal] = append(t[goal], r)
}

func markOf(goal int, what string) (mark, bool) {
	all := marks()
	i := slices.IndexFunc(all, func(m mark) bool { return m.goal == goal && m.what == what })
	if i < 0 {
		return mark{}, false
	}
	return all[i], true
}

// judge compares a row with its mark. A cost of zero or less means that nothing was measured, and
// so does an infinite ratio: both miss the mark.
func (r *Row) judge(m mark) {
	r.Bound, r.AtMost = &m.bound, m.atMost
	if m.atMost {
		r.Met = r.Value > 0 && r.Value <= m.bound
	} else {
		r.Met = r.Value >= m.bound && !math.IsInf(r.Value, 0)
	}
}

// rounded rounds to four digits. NaN stays NaN, which cannot be stored.
func rounded(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return y
}

// text writes a figure with its unit.
func text(value float64, unit string) string {
	if unit == "" {
		return fmt.Sprintf("%.4g", value)
	}
	return fmt.Sprintf("%.4g %s", value, unit)
}
