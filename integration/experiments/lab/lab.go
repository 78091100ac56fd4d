// Package lab records experiments. An Experiment states its claim, setting, arms and marks before
// it runs. A Report collects its findings, and a Page is the document with all experiments and
// their reports.
package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/integration/provenance"
)

// Experiment tests one published idea.
type Experiment struct {
	Name    string   // one word, also used in the names of its file and its pictures
	Title   string   // the published system and its subject
	Claim   string   // the claim and its authors
	Setting []string // data, store, machine: everything that the figures depend on
	Arms    []Arm
	Pass    []Mark // fixed before it runs
	Run     func(ctx context.Context, r *Report) error
}

// Arm is one of the variants that an experiment compares.
type Arm struct {
	Name string `json:"name"`
	What string `json:"what"`
}

// Mark is a result that an experiment must reach.
type Mark struct {
	Name  string // name to pass to Judge
	Want  string // the bound in words
	Fails string // a change of the product that misses the mark
	// Measured is set if the result depends on the machine's speed or on the size of the
	// experiment. The short form does not check such marks.
	Measured bool
}

// Verdict is the judgment of a mark.
type Verdict struct {
	Want  string           `json:"want"`
	Found string           `json:"found"` // the measured result
	Holds bool             `json:"holds"`
	Note  *provenance.Note `json:"note,omitempty"` // why the mark was missed

	mark Mark
}

// Report collects the findings of one run of an experiment. It is stored together with its
// provenance.
type Report struct {
	Name     string                 `json:"experiment"`
	Title    string                 `json:"title"`
	Claim    string                 `json:"claim"`
	Setting  []string               `json:"setting"`
	Arms     []Arm                  `json:"arms"`
	Measured provenance.Measurement `json:"measured"`
	Seconds  float64                `json:"seconds"`
	Items    []Item                 `json:"items"` // in the order of their addition
	Verdicts []Verdict              `json:"marks"`

	experiment Experiment
	log        io.Writer
	begun      time.Time
}

// Item is a note, a table or a figure.
type Item struct {
	Note   string  `json:"note,omitempty"`
	Table  *Table  `json:"table,omitempty"`
	Figure *Figure `json:"figure,omitempty"`
}

// Table is a table of text.
type Table struct {
	Title string     `json:"title"`
	Head  []string   `json:"head"`
	Rows  [][]string `json:"rows"`
}

// Row adds a row. Floats have three digits.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Text(c)
	}
	t.Rows = append(t.Rows, row)
}

// Text returns the text of a cell.
func Text(c any) string {
	switch v := c.(type) {
	case string:
		return v
	case float64:
		return number(v)
	case time.Duration:
		return v.Round(duration(v)).String()
	}
	return fmt.Sprint(c)
}

// duration returns the unit to which d is rounded: d then has three digits.
func duration(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return unit
}

// number formats v with three digits, or as a whole number if it has more.
func number(v float64) string {
	switch {
	case v != v:
		return "-"
	case v >= 999.5 || v <= -999.5:
		return fmt.Sprintf("%.0f", v)
	case v != 0 && v < 0.0995 && v > -.0995:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Run runs an experiment, and logs its progress.
func Run(ctx context.Context, e Experiment, log io.Writer) (*Report, error) {
	r := &Report{
		Name: e.Name, Title: e.Title, Claim: e.Claim, Setting: e.Setting, Arms: e.Arms, experiment: e, log: log, begun: time.Now(),
	}
	fmt.Fprintf(log, "\n%s: %s\n  claim: %s\n", e.Name, e.Title, e.Claim)
	for _, s := range e.Setting {
		fmt.Fprintf(log, "  setting: %s\n", s)
	}
	for _, a := range e.Arms {
		fmt.Fprintf(log, "  arm %s: %s\n", a.Name, a.What)
	}
	for _, m := range e.Pass {
		fmt.Fprintf(log, "  pass: %s\n", m.Want)
	}
	if err := e.Run(ctx, r); err != nil {
		return r, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	r.Seconds = time.Since(r.begun).Seconds()
	for _, m := range e.Pass {
		if !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.mark.Name == m.Name }) {
			return r, fmt.Errorf("experiment %s: mark %q was not judged", e.Name, m.Name)
		}
	}
	r.tell()
	return r, nil
}

// Logf reports the progress of the experiment.
func (r *Report) Logf(format string, args ...any) {
	fmt.Fprintf(r.log, "  [%s %5.1fs] %s\n", r.Name, time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// Table adds an empty table.
func (r *Report) Table(title string, head ...string) *Table {
	t := &Table{Title: title, Head: head}
	r.Items = append(r.Items, Item{Table: t})
	return t
}

// Figure adds a picture.
func (r *Report) Figure(f *Figure) { r.Items = append(r.Items, Item{Figure: f}) }

// Note adds a paragraph.
func (r *Report) Note(text string) { r.Items = append(r.Items, Item{Note: text}) }

// Judge adds the verdict on a mark.
func (r *Report) Judge(name string, holds bool, found string) {
	for _, m := range r.experiment.Pass {
		if m.Name == name {
			r.Verdicts = append(r.Verdicts, Verdict{Want: m.Want, Found: found, Holds: holds, mark: m})
			return
		}
	}
	panic("lab: experiment " + r.Name + " has no mark " + name)
}

// Counted returns the verdicts that also the short form of the experiment must reach.
func (r *Report) Counted() []Verdict {
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v Verdict) bool { return v.mark.Measured })
}

// Judged reports whether the report has a verdict for each current mark of the experiment.
func (r *Report) Judged(e Experiment) bool {
	return len(r.Verdicts) == len(e.Pass) && !slices.ContainsFunc(e.Pass, func(m Mark) bool {
		return !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Want == m.Want })
	})
}

// tell logs the findings.
func (r *Report) tell() {
	var b strings.Builder
	for _, i := range r.Items {
		if i.Table != nil {
			b.WriteString(i.Table.markdown())
		}
	}
	b.WriteString(r.verdicts(""))
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(r.log, "  ", line)
	}
	fmt.Fprintf(r.log, "  %s took %.1f s\n", r.Name, r.Seconds)
}
