package simulate

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/words"
)

// Dimensions of the picture, in pixels.
const (
	width, height = 720, 400
	left, right   = 70, 190
	top, bottom   = 40, 50
)

// Picture draws the time of the last epoch over the size of the cache, as SVG. It has a line for
// each policy, disk size and number of gateways.
func Picture(title string, results []Result) string {
	lines, names := series(results)
	var maxX, maxY float64
	for _, line := range lines {
		for _, p := range line {
			maxX, maxY = max(maxX, p.x), max(maxY, p.y)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="22" font-size="14">%s</text>`+"\n", left, html.EscapeString(title))
	x := func(v float64) float64 { return left + v/max(maxX, 1)*(width-left-right) }
	y := func(v float64) float64 { return height - bottom - v/max(maxY, 1e-9)*(height-top-bottom) }
	for _, v := range ticks(maxY) {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, y(v), width-right, left-6, y(v)+4, Span(time.Duration(v*float64(time.Second))))
	}
	for _, v := range ticks(maxX) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(v), height-bottom+18, Bytes(int64(v)))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">cache of a gateway</text>`+"\n", (left+width-right)/2, height-10)
	for i, line := range lines {
		colour := colours()[i%len(colours())]
		var path []string
		for _, p := range line {
			path = append(path, fmt.Sprintf("%.1f,%.1f", x(p.x), y(p.y)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p.x), y(p.y), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", width-right+12, top+10+16*i, colour, html.EscapeString(names[i]))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

type point struct{ x, y float64 }

// series makes a line from results that differ only in their cache size.
func series(results []Result) (lines [][]point, names []string) {
	at := map[Setting]int{}
	for i := range results {
		r := &results[i]
		key := r.Setting
		key.CacheSize = 0
		n, ok := at[key]
		if !ok {
			n = len(lines)
			at[key] = n
			lines = append(lines, nil)
			name := r.Setting.Policy
			if r.Setting.DiskSize > 0 {
				name += ", disk " + words.Size(r.Setting.DiskSize)
			}
			if r.Setting.Gateways > 1 {
				name += fmt.Sprintf(", %d gateways", r.Setting.Gateways)
			}
			names = append(names, name)
		}
		lines[n] = append(lines[n], point{float64(r.Setting.CacheSize), r.Later().Time.Seconds()})
	}
	for _, line := range lines {
		slices.SortFunc(line, func(a, b point) int { return int(math.Copysign(1, a.x-b.x)) })
	}
	return lines, names
}

// ticks returns several round numbers from 0 to most.
func ticks(most float64) []float64 {
	if !(most > 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for most/step < 4 {
		step /= 2
	}
	var all []float64
	for v := 0.0; v <= most*1.001; v += step {
		all = append(all, v)
	}
	return all
}

// colours returns colours that colour-blind people can distinguish (Okabe and Ito, Color Universal
// Design, 2008).
func colours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555"}
}
