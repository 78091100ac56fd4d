package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/integration/provenance"
)

// figures is the directory of the page's data, relative to the root of the repository.
const figures = "integration/bench/figures"

// File is a file of figures: the rows of a goal, or the tables of a section.
type File struct {
	Goal     int                    `json:"goal,omitempty"`
	Section  string                 `json:"section,omitempty"`
	Measured provenance.Measurement `json:"measured"`
	Rows     []Row                  `json:"rows,omitempty"`
	Blocks   []Block                `json:"blocks,omitempty"`

	older bool
}

// Block is a piece of a section: text, or a table.
type Block struct {
	Text string     `json:"text,omitempty"`
	Head []string   `json:"head,omitempty"`
	Rows [][]string `json:"rows,omitempty"`
}

func (f File) name() string {
	if f.Goal > 0 {
		return fmt.Sprintf("goal %d", f.Goal)
	}
	return f.Section
}

// file returns the path of the figures, relative to the root of the repository.
func (f File) file() string {
	if f.Goal > 0 {
		return fmt.Sprintf("%s/goal-%02d.json", figures, f.Goal)
	}
	return figures + "/" + f.Section + ".json"
}

// stored reads all figures: goals by number, then sections in the page's order.
func stored(root string) ([]File, error) {
	files, err := provenance.Read[File](filepath.Join(root, figures))
	if err != nil {
		return nil, err
	}
	for i := range files {
		f := &files[i]
		if f.older, err = f.Measured.Older(root); err != nil {
			return nil, err
		}
		for _, r := range f.Rows { // the mark may have changed or been removed since the measurement
			m, ok := markOf(f.Goal, r.What)
			f.older = f.older || ok != (r.Bound != nil) || ok && (*r.Bound != m.bound || r.AtMost != m.atMost)
		}
	}
	order := []string{"", "peers", "parquet", "columns", "training", "workers"}
	slices.SortFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Section), slices.Index(order, b.Section)), cmp.Compare(a.Goal, b.Goal))
	})
	return files, nil
}

// store writes the measurements of the run. The new rows of a goal replace its former rows.
func (s *suite) store(ctx context.Context, run *provenance.Run) error {
	for goal, rows := range s.table {
		measured, err := run.Of(ctx, sources(goal))
		if err != nil {
			return err
		}
		f := File{Goal: goal, Measured: measured, Rows: rows}
		if err := provenance.Write(filepath.Join(run.Root, s.out, filepath.Base(f.file())), f); err != nil {
			return err
		}
	}
	return nil
}

// sources returns the files and directories that a goal measures, and the file with the
// measurement.
func sources(goal int) []string {
	path := []string{"chunkindex", "datapath", "gateway", "internal", "shuffle"}
	binary := append(path, "cmd/millrace", "s3backend")
	in := func(base []string, files ...string) []string {
		all := slices.Clone(base)
		for _, f := range files {
			all = append(all, "integration/bench/"+f)
		}
		return all
	}
	python := append(slices.Clone(binary), "client/python/millrace")
	switch goal {
	case 1, 2, 3:
		return in(binary, "warm.go", "nginx.go")
	case 12:
		return in(binary, "warm.go")
	case 4:
		return in(binary, "cold.go", "relay.go")
	case 5:
		return in(append(path, "internal/testing/shaped"), "shaped.go")
	case 6, 7:
		return in(binary, "persample.go")
	case 8:
		return in(binary, "memory.go")
	case 9:
		return in([]string{"shuffle"}, "plans.go")
	case 10:
		return in(python, "python.go", "iterate")
	case 11:
		return in(binary, "warm.go", "cold.go")
	case 13:
		return in(binary, "tiers.go")
	case 14, 15:
		return in(append(path, "internal/testing/shaped"), "tiers.go")
	case 16:
		return in(append(binary, "cluster"), "peers.go")
	case 17:
		return in(binary, "tls.go")
	case 18:
		return in(python, "shared.go", "iterate")
	}
	return in(python, "peers") // for the sections
}

// section stores the markdown output of a measuring script as a section.
func section(ctx context.Context, name, command string, before float64, in io.Reader) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	run, err := provenance.Begin(command)
	if err != nil {
		return err
	}
	f := File{Section: name, Blocks: blocks(string(text))}
	if f.Measured, err = run.Of(ctx, sources(0)); err != nil {
		return err
	}
	f.Measured.Load[0] = before
	return provenance.Write(filepath.Join(run.Root, f.file()), f)
}

// blocks splits markdown into text and tables.
func blocks(markdown string) (all []Block) {
	for part := range strings.SplitSeq(strings.TrimSpace(markdown), "\n\n") {
		if !strings.HasPrefix(part, "|") {
			all = append(all, Block{Text: part})
			continue
		}
		var b Block
		for i, line := range strings.Split(part, "\n") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for c := range cells {
				cells[c] = strings.TrimSpace(cells[c])
			}
			switch i {
			case 0:
				b.Head = cells
			case 1: // the separator below the head
			default:
				b.Rows = append(b.Rows, cells)
			}
		}
		all = append(all, b)
	}
	return all
}

func (b Block) markdown() string {
	if b.Head == nil {
		return b.Text + "\n\n"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "| %s |\n|%s\n", strings.Join(b.Head, " | "), strings.Repeat("---|", len(b.Head)))
	for _, row := range b.Rows {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
	}
	return out.String() + "\n"
}

// page generates the page from all figures.
func page(root string, files []File) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString(tableHead)
	for _, f := range files {
		for _, r := range f.Rows {
			b.WriteString(r.line(f.Goal, f.older))
		}
	}
	b.WriteString("\n## Missed goals\n\n")
	for _, m := range unmeasured(files) {
		fmt.Fprintf(&b, "- **%d, %s**: not measured.\n", m.goal, m.what)
	}
	for _, f := range files {
		for _, r := range f.Rows {
			if r.Bound != nil && !r.Met {
				fmt.Fprintf(&b, "- **%d, %s**: %s of %s. %s\n", f.Goal, r.What, text(r.Value, r.Unit), text(*r.Bound, r.Unit), f.Measured.Explain(root, r.Note))
			}
		}
	}
	b.WriteString("\n")
	for _, f := range files {
		for i, block := range f.Blocks {
			b.WriteString(block.markdown())
			if i == 0 && f.older {
				b.WriteString("**Older than its sources**: see [provenance](#provenance).\n\n")
			}
		}
	}
	b.WriteString(changes())
	b.WriteString("\n## Provenance\n\n" + aboutProvenance + provenance.Head)
	for _, f := range files {
		b.WriteString(f.Measured.Row(f.name(), f.older))
	}
	return b.Bytes()
}

const tableHead = "| goal | figure | arms | result | quartiles | bound | met | current |\n|---|---|---|---|---|---|---|---|\n"

// line returns the row as a line of the table of all goals.
func (r Row) line(goal int, older bool) string {
	var arms []string
	for _, a := range r.Arms {
		arms = append(arms, a.Name+" "+text(a.Median, a.Unit))
	}
	bound, met := "-", "-"
	if r.Bound != nil {
		bound, met = "≥ "+text(*r.Bound, r.Unit), provenance.Yes(r.Met)
		if r.AtMost {
			bound = "≤ " + text(*r.Bound, r.Unit)
		}
	}
	return fmt.Sprintf("| %d | %s | %s | %s | %.4g - %.4g | %s | %s | %s |\n", goal, r.What, strings.Join(arms, ", "), text(r.Value, r.Unit),
		r.Quartiles[0], r.Quartiles[1], bound, met, provenance.Yes(!older))
}

// unmeasured lists the marks without a row.
func unmeasured(files []File) []mark {
	return slices.DeleteFunc(marks(), func(m mark) bool {
		return slices.ContainsFunc(files, func(f File) bool {
			return f.Goal == m.goal && slices.ContainsFunc(f.Rows, func(r Row) bool { return r.What == m.what })
		})
	})
}

// changes returns a table with a change of the product for each mark that makes the figure miss it.
func changes() string {
	var b strings.Builder
	b.WriteString("## Changes that miss a goal\n\n| goal | figure | bound | change of the product that misses it |\n|---|---|---|---|\n")
	for _, m := range marks() {
		sign := "≥"
		if m.atMost {
			sign = "≤"
		}
		fmt.Fprintf(&b, "| %d | %s | %s %.4g | %s |\n", m.goal, m.what, sign, m.bound, m.fails)
	}
	return b.String()
}

// publish generates the page and its chart. With check it generates nothing; it returns an error if
// a figure is older than its sources or was never measured.
func publish(file string, check bool) error {
	root, err := provenance.Root()
	if err != nil {
		return err
	}
	files, err := stored(root)
	if err != nil {
		return err
	}
	if !check {
		picture, err := chart(files)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), chartFile), picture, 0o644); err != nil {
			return err
		}
		return os.WriteFile(file, page(root, files), 0o644)
	}
	for _, f := range files {
		if f.older {
			err = errors.Join(err, fmt.Errorf("%s is older than its sources: measure it again", f.name()))
		}
	}
	for _, m := range unmeasured(files) {
		err = errors.Join(err, fmt.Errorf("goal %d was not measured: %s", m.goal, m.what))
	}
	return err
}

const intro = `# Benchmarks

These figures compare Millrace with bare handlers, with the store itself and with other libraries. ` + "`make figures`" + ` makes this page
from the rows in ` + "`integration/bench/figures`" + `; ` + "`make bench`" + ` measures them, or some goals with ` + "`GOALS=\"1,2\"`" + `.

![Millrace relative to the best other loader: throughput, CPU time, memory, time to the first batch](` + chartFile + `)

The chart compares Millrace with the best other loader in each table of
[other libraries](#against-the-libraries-that-people-use-now), [training](#a-training-step-with-decoding) and
[memory of workers](#memory-of-workers). Its memory includes the gateway.

Speed on a shared machine varies by a factor of two within an hour. So each figure is the ratio of two arms that alternate in
one process start, seven times unless the command says otherwise. The result is the median of the paired ratios. A figure is
*current* if the sources that it measures have not changed since; [provenance](#provenance) names them.

| arm | what it is |
|---|---|
| HOT | a bare net/http handler that writes one resident slice per response |
| COLD-MEM | the same, from a random place of a buffer as large as the cache |
| STRAIGHT | a parallel ranged download of the same bytes from the same store, discarded |
| RELAY | a process that receives the same bytes from the same store, 12 reads of 16 MiB concurrently, and sends each once, in stored order: no checks, no batches, no cache |
| nginx | Debian's nginx with two workers and sendfile, which sends the batches of an epoch from files that the system has in memory |
| GET1 | one object GET per sample, 16 concurrently |
| RANGE1 | one ranged GET per sample into the packed shards, 16 concurrently |
| HOT and COLD-MEM over TLS | the same handlers behind net/http's own TLS |
| two bare hops | a bare handler that asks another one over kept connections with mutual TLS 1.3, and sends its answer |

There are two datasets, of 512 MiB unless the command says otherwise, in chunks of 8 MiB: photos with samples of 110 KB and text
with samples of 4 KB. Batches have 256 samples. The gateway is the real binary in a process of its own, the bare handlers too;
4 keep-alive connections read batches and discard them, in plain HTTP unless the row says otherwise. Gateways ask each other over
mutual TLS 1.3; nine tenths of what goal 16 reads come from the other gateway. The store is a MinIO process on the same machine;
for goals 5, 14 and 15 an in-process store with 20 ms to the first byte, 80 MB/s per stream and 500 MB/s in total.
A cold epoch begins with a gateway that has just started and has mapped its memory. An arm begins when the store is idle.

`

const aboutProvenance = `Empty digests belong to figures that were measured before digests were recorded; they are never current.

`
