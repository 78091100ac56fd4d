package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// comparison is one bar of the chart: Millrace's figure divided by that of the best other loader.
type comparison struct {
	label   string
	section string
	columns []string // summed
	paired  bool     // the next column has the ratios of the same rounds
	cost    bool     // lower is better
}

// comparisons lists the bars: throughput, then costs.
func comparisons() []comparison {
	const step = "decoding and a step of the model, steps/s"
	return []comparison{
		{label: "Cold epoch, raw samples", section: "peers", columns: []string{"cold, samples/s"}},
		{label: "Warm epoch, raw samples", section: "peers", columns: []string{"warm, samples/s"}},
		{label: "Decoding JPEG", section: "training", columns: []string{"decoding alone, steps/s"}, paired: true},
		{label: "Decoding JPEG and training", section: "training", columns: []string{step}, paired: true},
		{label: "CPU time, raw samples", section: "peers", columns: []string{"processor, us/sample"}, cost: true},
		{label: "Memory, raw samples", section: "peers", columns: []string{"memory, MiB"}, cost: true},
		{label: "Memory, decoding JPEG and training", section: "training", columns: []string{"memory, MiB"}, cost: true},
		{label: "Memory, against ImageFolder", section: "workers", columns: []string{"PSS, MiB", "gateway: PSS, MiB"}, cost: true},
		{label: "Time to the first batch, raw samples", section: "peers", columns: []string{"first batch, s"}, cost: true},
	}
}

// span is the range of a comparison over all tables of its section.
type span struct{ low, high float64 }

// measure returns the range of c. It compares each row of Millrace with the best other loader in
// the same table with the same number of workers.
func (c comparison) measure(files []File) (span, error) {
	at := slices.IndexFunc(files, func(f File) bool { return f.Section == c.section })
	if at < 0 {
		return span{}, fmt.Errorf("chart %q: no section %s is stored", c.label, c.section)
	}
	var ratios []float64
	for _, b := range files[at].Blocks {
		if slices.Contains(b.Head, "set") || !slices.Contains(b.Head, c.columns[0]) {
			continue // text, or a table of another measurement
		}
		found, err := c.ratios(b)
		if err != nil {
			return span{}, fmt.Errorf("chart %q: %w", c.label, err)
		}
		ratios = append(ratios, found...)
	}
	if len(ratios) == 0 {
		return span{}, fmt.Errorf("chart %q: section %s has no table with the column %q", c.label, c.section, c.columns[0])
	}
	return span{slices.Min(ratios), slices.Max(ratios)}, nil
}

// ratios returns one ratio to the best other loader for each row of Millrace.
func (c comparison) ratios(b Block) (all []float64, err error) {
	for _, ours := range b.Rows {
		if !strings.HasPrefix(b.loader(ours), "Millrace") {
			continue
		}
		var each []float64
		for _, theirs := range b.Rows {
			if strings.HasPrefix(b.loader(theirs), "Millrace") || b.cell(theirs, "workers") != b.cell(ours, "workers") {
				continue
			}
			ratio, err := c.ratio(b, ours, theirs)
			if err != nil {
				return nil, err
			}
			each = append(each, ratio)
		}
		if len(each) == 0 {
			return nil, fmt.Errorf("no other loader in the table of %s", b.loader(ours))
		}
		if c.cost {
			all = append(all, slices.Max(each))
		} else {
			all = append(all, slices.Min(each))
		}
	}
	return all, nil
}

// ratio returns the figure of one row divided by that of another.
func (c comparison) ratio(b Block, ours, theirs []string) (float64, error) {
	if c.paired {
		return number(theirs[slices.Index(b.Head, c.columns[0])+1])
	}
	sums := [2]float64{}
	for i, row := range [][]string{ours, theirs} {
		for _, column := range c.columns {
			cell := b.cell(row, column)
			if cell == "" { // the loader has no gateway
				continue
			}
			x, err := number(cell)
			if err != nil {
				return 0, err
			}
			sums[i] += x
		}
	}
	if sums[0] <= 0 || sums[1] <= 0 {
		return 0, fmt.Errorf("no figure in column %q", c.columns[0])
	}
	return sums[0] / sums[1], nil
}

// loader returns the name in a row. The column with names has no head, or the head "dataset".
func (b Block) loader(row []string) string {
	if i := slices.Index(b.Head, "dataset"); i >= 0 {
		return row[i]
	}
	return b.cell(row, "")
}

// cell returns the text of a column, or "" if the table has no such column.
func (b Block) cell(row []string, head string) string {
	i := slices.Index(b.Head, head)
	if i < 0 {
		return ""
	}
	return strings.Trim(row[i], "*")
}

// number parses the first number of a cell: 1.03 of "1.03 x (1.01 - 1.04)".
func number(cell string) (float64, error) {
	first, _, _ := strings.Cut(strings.Trim(cell, "*"), " ")
	return strconv.ParseFloat(strings.ReplaceAll(first, ",", ""), 64)
}
