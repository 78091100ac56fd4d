package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/testing/provenance"
)

// median of an unsorted list; 0 for an empty one.
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

// row is one line of the table.
type row struct {
	goal         int
	what         string
	ours, theirs string // medians of the arms, with units
	value        float64
	lo, hi       float64 // spread: quartiles of the paired ratios
	unit         string
	bound        float64
	atMost       bool // the goal is an upper bound
	noGoal       bool // shown, not judged
}

type table []row

func (r row) met() bool {
	if r.atMost {
		return r.value <= r.bound
	}
	return r.noGoal || r.value >= r.bound
}

// paired adds a row from rounds of two arms: ours over theirs. The goal is a lower bound for rates, and at most that for costs.
func (t *table) paired(goal int, what string, ours, theirs []float64, format func(float64) string, bound float64, atMost bool) {
	ratios := make([]float64, min(len(ours), len(theirs)))
	for i := range ratios {
		ratios[i] = ours[i] / theirs[i]
	}
	*t = append(*t, row{
		goal: goal, what: what, ours: format(median(ours)), theirs: format(median(theirs)), unit: " x",
		value: median(ratios), lo: quantile(ratios, 0.25), hi: quantile(ratios, 0.75), bound: bound, atMost: atMost,
	})
}

// shown adds such a row without a goal.
func (t *table) shown(goal int, what string, ours, theirs []float64, format func(float64) string) {
	t.paired(goal, what, ours, theirs, format, 0, false)
	(*t)[len(*t)-1].noGoal = true
}

// single adds a row of one figure that has to stay below a bound.
func (t *table) single(goal int, what string, values []float64, unit string, bound float64) {
	*t = append(*t, row{
		goal: goal, what: what, ours: "-", theirs: "-", unit: unit,
		value: median(values), lo: quantile(values, 0.25), hi: quantile(values, 0.75), bound: bound, atMost: true,
	})
}

func gigabytes(x float64) string      { return fmt.Sprintf("%.3g GB/s", x/1e9) }
func perSecond(x float64) string      { return fmt.Sprintf("%.4g samples/s", x) }
func nanoPerKB(x float64) string      { return fmt.Sprintf("%.4g ns/KB", x*1e12) }
func microPerSample(x float64) string { return fmt.Sprintf("%.4g us/sample", x*1e6) }
func seconds(x float64) string        { return fmt.Sprintf("%.4g s", x) }

// sorted is the table by goal.
func (t table) sorted() table {
	return slices.SortedStableFunc(slices.Values(t), func(a, b row) int { return a.goal - b.goal })
}

func (t table) markdown() string {
	var b strings.Builder
	b.WriteString("| goal | what | Millrace | yardstick | result | quartiles | goal | met |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range t.sorted() {
		sign, met := "≥", "yes"
		if r.atMost {
			sign = "≤"
		}
		if !r.met() {
			met = "**no**"
		}
		goal := fmt.Sprintf("%s %.3g%s", sign, r.bound, r.unit)
		if r.noGoal {
			goal, met = "-", "-"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %.3g%s | %.3g - %.3g | %s | %s |\n",
			r.goal, r.what, r.ours, r.theirs, r.value, r.unit, r.lo, r.hi, goal, met)
	}
	return b.String()
}

// finish prints the table and writes the page.
func (s *suite) finish(ctx context.Context) error {
	fmt.Fprintln(s.log, s.table.markdown())
	if s.out == "" {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("# Benchmarks\n\nWritten by `make bench`; not edited by hand.\n\n")
	fmt.Fprintf(&b, "- machine: %s\n- commit: %s\n- date: %s\n- data: two datasets of %d MiB in chunks of 8 MiB, samples of 110 KB and of 4 KB, batches of 256\n",
		provenance.Machine(), provenance.Commit(ctx), time.Now().UTC().Format(time.DateOnly), s.mib)
	fmt.Fprintf(&b, "- rounds: %d, arms alternating; result = median of the paired ratios, beside it their quartiles\n", s.rounds)
	if s.quick {
		b.WriteString("- **a quick run: it shows that everything runs and measures nothing**\n")
	}
	b.WriteString(method)
	b.WriteString(s.table.markdown())
	b.WriteString(s.table.missed())
	b.WriteString(s.costs)
	b.Write(peersSection(s.out))
	return os.WriteFile(s.out, b.Bytes(), 0o644)
}

// peersSection is what integration/bench/peers has written into the page: it is measured by itself, and stays.
func peersSection(page string) []byte {
	old, _ := os.ReadFile(page) // a page that is not there has none
	if at := bytes.Index(old, []byte("\n<!-- peers -->")); at >= 0 {
		return old[at:]
	}
	return nil
}

const method = `
Absolute figures on a shared machine move by a factor of two within an hour. So each figure is the ratio of two arms that
run alternately in one process start; only the ratio is judged.

| arm | what it is |
|---|---|
| HOT | a bare net/http handler that writes one resident slice per response |
| COLD-MEM | the same, from a random place of a buffer as large as the cache |
| STRAIGHT | a parallel ranged download of the same bytes from the same store, thrown away |
| GET1 | one object GET per sample, 16 in flight |
| RANGE1 | one ranged GET per sample into the packed shards, 16 in flight |
| HOT and COLD-MEM over TLS | the same handlers behind net/http's own TLS |
| two bare hops | a bare handler that asks another one over kept connections with mutual TLS 1.3, and passes on what it answers |

The gateway is the real binary in a process of its own, the bare handlers too; batches are read over 4 keep-alive connections and
thrown away, in plain HTTP unless the line says otherwise. Gateways ask each other over mutual TLS 1.3; of what goal 16 reads, nine
tenths come from the other gateway. The store is a MinIO process on the same machine, for goal 5 an in-process store with 20 ms to the
first byte, 80 MB/s per stream and 500 MB/s in all. A cold epoch begins with a gateway that was just started and has mapped its memory;
an arm begins when the store is quiet.

`
