package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// chartFile is the path of the README's chart, relative to the page.
const chartFile = "pictures/benchmarks.svg"

// Coordinates of the chart in pixels.
const (
	chartWidth = 800
	plotLeft   = 290
	plotRight  = 670
	plotTop    = 78
	rowHeight  = 26
	headHeight = 34
)

// axis is a logarithmic axis of ratios, with ticks at powers of two.
type axis struct{ low, high float64 }

// axisOf returns the smallest axis that contains all ranges and 1.
func axisOf(spans []span) axis {
	low, high := 1.0, 1.0
	for _, s := range spans {
		low, high = min(low, s.low), max(high, s.high)
	}
	return axis{math.Exp2(math.Floor(math.Log2(low))), math.Exp2(math.Ceil(math.Log2(high)))}
}

func (a axis) at(ratio float64) float64 {
	return plotLeft + (plotRight-plotLeft)*math.Log2(ratio/a.low)/math.Log2(a.high/a.low)
}

// chart draws the comparisons as SVG. Its background is opaque, so that the chart is legible on
// pages of any color.
func chart(files []File) ([]byte, error) {
	all := comparisons()
	spans := make([]span, len(all))
	for i, c := range all {
		var err error
		if spans[i], err = c.measure(files); err != nil {
			return nil, err
		}
	}
	scale, height := axisOf(spans), plotTop+2*headHeight+len(all)*rowHeight+62
	var b bytes.Buffer
	fmt.Fprintf(&b, chartHead, chartWidth, height, height-1, description(all, spans))
	scale.draw(&b, height-58)
	y := plotTop
	for i, c := range all {
		if i == 0 || c.cost != all[i-1].cost {
			y += headHeight
			fmt.Fprintf(&b, "<text x=\"20\" y=\"%d\" class=\"head\">%s</text>\n", y-10, heading(c.cost))
		}
		c.draw(&b, scale, spans[i], y)
		y += rowHeight
	}
	fmt.Fprintf(&b, "<text x=\"20\" y=\"%d\" class=\"small\">%s</text>\n", height-18, html.EscapeString(measured(files)))
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

func heading(cost bool) string {
	if cost {
		return "Cost: less than 1 x is better"
	}
	return "Throughput: more than 1 x is better"
}

// draw writes the grid and its labels, down to bottom.
func (a axis) draw(b *bytes.Buffer, bottom int) {
	for tick := a.low; tick <= a.high; tick *= 2 {
		class := "grid"
		if tick == 1 {
			class = "one"
		}
		fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"%s\"/>\n", a.at(tick), a.at(tick), plotTop, bottom, class)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" class=\"small\" text-anchor=\"middle\">%g x</text>\n", a.at(tick), bottom+16, tick)
	}
}

// draw writes the label of a bar, its range and its figures. A second color marks the part of the
// range where Millrace is worse.
func (c comparison) draw(b *bytes.Buffer, a axis, s span, y int) {
	fmt.Fprintf(b, "<text x=\"32\" y=\"%d\">%s</text>\n", y+13, html.EscapeString(c.label))
	below, above := "worse", "better"
	if c.cost {
		below, above = above, below
	}
	bar(b, a, span{s.low, min(s.high, 1)}, y, below)
	bar(b, a, span{max(s.low, 1), s.high}, y, above)
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", plotRight+14, y+13, s)
}

func bar(b *bytes.Buffer, a axis, s span, y int, class string) {
	if s.low > s.high {
		return
	}
	const thinnest = 3
	fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"14\" rx=\"2\" class=\"%s\"/>\n", a.at(s.low), y+2, max(a.at(s.high)-a.at(s.low), thinnest), class)
}

func (s span) String() string { return fmt.Sprintf("%.2f – %.2f x", s.low, s.high) }

// description describes the chart in words.
func description(all []comparison, spans []span) string {
	said := make([]string, len(all))
	for i, c := range all {
		said[i] = fmt.Sprintf("%s: %s.", c.label, spans[i])
	}
	return html.EscapeString(strings.Join(said, " "))
}

// measured returns a line with the dates of the measurements and the number of cores.
func measured(files []File) string {
	var dates, cores []string
	for _, f := range files {
		if slices.ContainsFunc(comparisons(), func(c comparison) bool { return c.section == f.Section }) {
			dates, cores = append(dates, f.Measured.Date), append(cores, fmt.Sprint(f.Measured.Machine.Cores))
		}
	}
	slices.Sort(dates)
	slices.Sort(cores)
	return fmt.Sprintf("Bars: range over datasets, workers and stores. Measured on %s cores, %s to %s.", strings.Join(slices.Compact(cores), " and "), dates[0], dates[len(dates)-1])
}

const chartHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" role="img" aria-labelledby="title about">
<title id="title">Millrace relative to the best other loader</title>
<desc id="about">%[4]s</desc>
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 } .head { font-weight: 600 } .small { font-size: 12px; fill: #59636e }
.page { fill: #ffffff; stroke: #d1d9e0 } .grid { stroke: #d1d9e0 } .one { stroke: #59636e; stroke-width: 2 }
.better { fill: #0f766e } .worse { fill: #c2570c }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .small { fill: #9198a1 }
.page { fill: #0d1117; stroke: #3d444d } .grid { stroke: #3d444d } .one { stroke: #9198a1 }
.better { fill: #2dd4bf } .worse { fill: #fb923c }
}
</style>
<rect x="0.5" y="0.5" width="799" height="%[3]d" rx="6" class="page"/>
<text x="20" y="32" class="title">Millrace relative to the best other loader</text>
<text x="20" y="54" class="small">WebDataset, MosaicML Streaming, LitData, Hugging Face datasets. Teal: Millrace is better; orange: worse.</text>
`
