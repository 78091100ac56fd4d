// Package lab is the notebook of the experiments: an Experiment says what it claims, in
// which setting, with which arms and by which marks it is judged, before it runs; a Report
// collects what it finds; a Page is the document made of both.
package lab

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Experiment is one published idea put to the test.
type Experiment struct {
	Name    string   // one word: also the name of its file and its pictures
	Title   string   // the published system and what it is about
	Claim   string   // what is claimed, by whom
	Setting []string // data, store, machine: all that the figures depend on
	Arms    []Arm
	Pass    []Mark // fixed before it runs
	Run     func(ctx context.Context, r *Report) error
}

// Arm is one thing that is compared.
type Arm struct{ Name, What string }

// Mark is what a result must reach.
type Mark struct {
	Name string // by which Judge knows it
	Want string // in words, with the figure
	// Measured says that it depends on how fast the machine is, or on the size of the experiment: the short form does not
	// hold it.
	Measured bool
}

// Verdict is what became of a mark.
type Verdict struct {
	Mark
	Holds bool
	Found string // what was measured
	Why   string // the reason, where it does not hold
}

// Report collects what one run of an experiment finds.
type Report struct {
	Experiment Experiment
	Items      []Item // tables, figures and notes, in the order in which they came
	Verdicts   []Verdict
	Took       time.Duration

	log   io.Writer
	begun time.Time
}

// Item is a *Table, a *Figure or a Note.
type Item interface{ item() }

// Note is a paragraph.
type Note string

func (Note) item()    {}
func (*Table) item()  {}
func (*Figure) item() {}

// Table is a table of text.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Row adds a line. Floats are written with three digits.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = Text(c)
	}
	t.Rows = append(t.Rows, row)
}

// Text writes a cell.
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

// duration is how exactly a duration is written: to three digits.
func duration(d time.Duration) time.Duration {
	unit := time.Nanosecond
	for d >= 1000*unit {
		unit *= 10
	}
	return unit
}

// number writes three digits, and whole numbers where there are more.
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

// Run runs an experiment, telling log what it does.
func Run(ctx context.Context, e Experiment, log io.Writer) (*Report, error) {
	r := &Report{Experiment: e, log: log, begun: time.Now()}
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
	r.Took = time.Since(r.begun)
	for _, m := range e.Pass {
		if !slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Name == m.Name }) {
			return r, fmt.Errorf("experiment %s: mark %q was not judged", e.Name, m.Name)
		}
	}
	r.tell()
	return r, nil
}

// Logf tells who watches where the experiment is.
func (r *Report) Logf(format string, args ...any) {
	fmt.Fprintf(r.log, "  [%s %5.1fs] %s\n", r.Experiment.Name, time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// Table adds an empty table.
func (r *Report) Table(title string, head ...string) *Table {
	t := &Table{Title: title, Head: head}
	r.Items = append(r.Items, t)
	return t
}

// Add adds a picture or a note.
func (r *Report) Add(i Item) { r.Items = append(r.Items, i) }

// Judge settles a mark. why is the reason where it does not hold.
func (r *Report) Judge(name string, holds bool, found, why string) {
	for _, m := range r.Experiment.Pass {
		if m.Name == name {
			v := Verdict{Mark: m, Holds: holds, Found: found}
			if !holds {
				v.Why = why
			}
			r.Verdicts = append(r.Verdicts, v)
			return
		}
	}
	panic("lab: experiment " + r.Experiment.Name + " has no mark " + name)
}

// tell prints what was found.
func (r *Report) tell() {
	var b strings.Builder
	for _, i := range r.Items {
		if t, ok := i.(*Table); ok {
			b.WriteString(t.markdown())
		}
	}
	b.WriteString(r.verdicts())
	for line := range strings.Lines(b.String()) {
		fmt.Fprint(r.log, "  ", line)
	}
	fmt.Fprintf(r.log, "  %s took %.1f s\n", r.Experiment.Name, r.Took.Seconds())
}
