package lab

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/millrace-data/millrace/integration/provenance"
)

// Page is the document of all reports.
type Page struct {
	Root    string // root of the repository, for notes
	Plots   string // directory of the pictures, relative to the page
	Reports []*Report
	Older   map[string]bool // experiments whose sources or marks have changed since they ran
	Changes string          // table of a change for each mark that misses it
}

const intro = `# Experiments

These experiments test published ideas. Each section states the claim, the setting, the arms and the marks (pass criteria), all fixed
before the run. Tables, charts and results come from the run. A missed mark is reported as missed; marks never move to fit.
` + "`make figures`" + ` generates this page from ` + "`integration/experiments/figures`" + `. ` + "`make experiments`" + ` runs all experiments, or some with
` + "`ONLY=\"brand,shade\"`" + `. Figures are *current* if their sources have not changed since the run; see [provenance](#provenance).

The store is in memory and shaped like a remote one, so that the CPUs of a small machine do not limit the results. Unless a section
states otherwise, it takes 20 ms to the first byte and has 80 MB/s per stream and 500 MB/s in total. Samples (4 KB) and chunks are
small, so that each arm takes at most two minutes. Epoch 0 is reported separately, and cold misses count. Nothing is extrapolated: if
a whole epoch would take too long, the table states the measured part.
The code of published protocols and classifiers is in ` + "`integration/experiments/`" + `, never in Millrace itself.

`

// Markdown returns the page.
func (p *Page) Markdown() string {
	var b strings.Builder
	b.WriteString(intro + "| experiment | mark | found | holds | current |\n|---|---|---|---|---|\n")
	for _, r := range p.Reports {
		for _, v := range r.Verdicts {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s |\n", r.Name, r.Name, v.Want, v.Found, provenance.Yes(v.Holds), provenance.Yes(!p.Older[r.Name]))
		}
	}
	for _, r := range p.Reports {
		b.WriteString(r.markdown(p))
	}
	b.WriteString("\n## Changes that miss a mark\n\n| experiment | mark | change that misses it |\n|---|---|---|\n" + p.Changes)
	b.WriteString("\n## Provenance\n\n" + provenance.Head)
	for _, r := range p.Reports {
		b.WriteString(r.Measured.Row(r.Name, p.Older[r.Name]))
	}
	return b.String()
}

// Changes returns table rows with a change for each mark that misses it.
func (e Experiment) Changes() string {
	var b strings.Builder
	for _, m := range e.Pass {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Name, m.Want, m.Fails)
	}
	return b.String()
}

func (r *Report) markdown(p *Page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n**Claim.** %s\n\n**Setting.**\n", r.Name, r.Title, r.Claim)
	for _, s := range r.Setting {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\n**Arms.**\n\n| arm | description |\n|---|---|\n")
	for _, a := range r.Arms {
		fmt.Fprintf(&b, "| %s | %s |\n", a.Name, a.What)
	}
	for _, i := range r.Items {
		switch {
		case i.Table != nil:
			b.WriteString(i.Table.markdown())
		case i.Figure != nil:
			fmt.Fprintf(&b, "\n![%s](%s)\n", i.Figure.Title, path.Join(p.Plots, r.File(i.Figure)))
		default:
			fmt.Fprintf(&b, "\n%s\n", i.Note)
		}
	}
	b.WriteString(r.verdicts(p.Root))
	fmt.Fprintf(&b, "\nTook %s.\n", time.Duration(r.Seconds*float64(time.Second)).Round(time.Second/10))
	return b.String()
}

// File returns the file name of a picture.
func (r *Report) File(f *Figure) string { return r.Name + "-" + f.Name + ".svg" }

func (r *Report) verdicts(root string) string {
	var b strings.Builder
	b.WriteString("\n**Marks.**\n\n| mark | found | holds |\n|---|---|---|\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Want, v.Found, provenance.Yes(v.Holds))
	}
	for _, v := range r.Verdicts {
		if !v.Holds {
			fmt.Fprintf(&b, "\n*%s* does not hold: %s\n", v.Want, r.Measured.Explain(root, v.Note))
		}
	}
	return b.String()
}

func (t *Table) markdown() string {
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "\n%s\n", t.Title)
	}
	fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
	for _, row := range t.Rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}
