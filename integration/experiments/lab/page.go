package lab

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Page is the document of all reports.
type Page struct {
	Machine string
	Commit  string
	Date    time.Time
	Plots   string // where the pictures are, relative to the page
	Reports []*Report
}

const intro = `# Experiments

Written by ` + "`make experiments`" + `; not edited by hand. Each section is one published idea put to the test: what is claimed,
the setting, the arms and the marks were written down before the run; the tables, the pictures and what became of the
marks are what the run found. A mark never moves to fit: one that is missed is listed as missed, with the reason.

The store is in memory and shaped like a distant one, so that a small machine's processors are not what is measured: 20 ms
to the first byte, 80 MB/s a stream and 500 MB/s in all, unless a section says otherwise. Samples are small (4 KB) and so
are chunks, so that no arm takes longer than two minutes. Epoch 0 is reported apart, and cold misses count. Nothing is
extrapolated: where a whole epoch would take too long, the figure is that of the part that was run, and the table says so.
The experiments' own code (published protocols, classifiers) is in ` + "`integration/experiments/`" + `, never in the product.

`

// Markdown writes the page.
func (p *Page) Markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	var took time.Duration
	for _, r := range p.Reports {
		took += r.Took
	}
	fmt.Fprintf(&b, "- machine: %s\n- commit: %s\n- date: %s\n- took: %s\n\n", p.Machine, p.Commit, p.Date.Format(time.DateOnly), took.Round(time.Second))
	b.WriteString(tableHead)
	for _, r := range p.Reports {
		b.WriteString(r.rows())
	}
	for _, r := range p.Reports {
		b.WriteString(r.markdown(p.Plots))
	}
	return b.String()
}

const (
	tableHead   = "| experiment | mark | found | holds |\n|---|---|---|---|\n"
	sectionHead = "\n## "
)

// Renew returns a page that was written before with these reports in place of its own of the same experiments, which say so. Those of
// experiments that it has not come where order, the names of all experiments, has them.
func (p *Page) Renew(page string, order []string) (string, error) {
	head, rest, ok := strings.Cut(page, tableHead)
	table, sections, both := strings.Cut(rest, sectionHead)
	if !ok || !both {
		return "", fmt.Errorf("the page has no table of marks and sections after it: run all experiments")
	}
	rows, texts := map[string]string{}, map[string]string{}
	for row := range strings.Lines(table) {
		name, _, _ := strings.Cut(strings.TrimPrefix(row, "| ["), "]")
		rows[name] += row
	}
	for text := range strings.SplitSeq(sections, sectionHead) {
		name, _, _ := strings.Cut(text, "\n")
		texts[name] = sectionHead + text
	}
	for _, r := range p.Reports {
		name := r.Experiment.Name
		rows[name] = r.rows()
		texts[name] = r.markdown(p.Plots) + fmt.Sprintf("Run by itself on %s, at commit %s.\n", p.Date.Format(time.DateOnly), p.Commit)
	}
	for name := range texts {
		if !slices.Contains(order, name) {
			return "", fmt.Errorf("the page has a section %q, and there is no such experiment: run all experiments", name)
		}
	}
	var marks, reports strings.Builder
	for _, name := range order {
		marks.WriteString(rows[name])
		reports.WriteString(texts[name])
	}
	return head + tableHead + marks.String() + reports.String(), nil
}

// rows are the marks in the table of all.
func (r *Report) rows() string {
	var b strings.Builder
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", r.Experiment.Name, r.Experiment.Name, v.Want, v.Found, yes(v.Holds))
	}
	return b.String()
}

func yes(holds bool) string {
	if holds {
		return "yes"
	}
	return "**no**"
}

func (r *Report) markdown(plots string) string {
	var b strings.Builder
	e := r.Experiment
	fmt.Fprintf(&b, sectionHead+"%s\n\n%s\n\n**Claim.** %s\n\n**Setting.**\n", e.Name, e.Title, e.Claim)
	for _, s := range e.Setting {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	b.WriteString("\n**Arms.**\n\n| arm | what it is |\n|---|---|\n")
	for _, a := range e.Arms {
		fmt.Fprintf(&b, "| %s | %s |\n", a.Name, a.What)
	}
	for _, i := range r.Items {
		switch i := i.(type) {
		case Note:
			fmt.Fprintf(&b, "\n%s\n", string(i))
		case *Table:
			b.WriteString(i.markdown())
		case *Figure:
			fmt.Fprintf(&b, "\n![%s](%s)\n", i.Title, path.Join(plots, r.File(i)))
		}
	}
	b.WriteString(r.verdicts())
	fmt.Fprintf(&b, "\nTook %s.\n", r.Took.Round(time.Second/10))
	return b.String()
}

// File is the name of a picture's file.
func (r *Report) File(f *Figure) string { return r.Experiment.Name + "-" + f.Name + ".svg" }

func (r *Report) verdicts() string {
	var b strings.Builder
	b.WriteString("\n**Marks.**\n\n| mark | found | holds |\n|---|---|---|\n")
	for _, v := range r.Verdicts {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", v.Want, v.Found, yes(v.Holds))
	}
	for _, v := range r.Verdicts {
		if !v.Holds {
			fmt.Fprintf(&b, "\n*%s* does not hold here: %s\n", v.Want, v.Why)
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
