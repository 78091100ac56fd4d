package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/internal/words"
)

// mark is the role of a line: the parameter of an ANSI sequence for its color. Color adds no information.
type mark string

const (
	plain mark = ""
	title mark = "1"  // bold
	faint mark = "2"  // faint
	bad   mark = "31" // red
	wary  mark = "33" // yellow
)

// line is one line of the screen.
type line struct {
	mark mark
	text string
}

// draw returns the line in at most width columns.
func (l line) draw(width int, color bool) string {
	text := strings.TrimRight(runewidth.Truncate(l.text, width, "~"), " ")
	if color && l.mark != plain {
		return "\x1b[" + string(l.mark) + "m" + text + "\x1b[m"
	}
	return text
}

// Print returns a report as text: all diagnoses, the totals, all gateways and all ranks.
func (r *Report) Print(width int) string {
	var b strings.Builder
	for _, l := range r.lines(width, 1<<30) {
		b.WriteString(l.draw(width, false) + "\n")
	}
	return b.String()
}

// screen returns the text that redraws a terminal of the given size.
func (r *Report) screen(width, height int, color bool) string {
	head := []string{"millrace top", words.Count(len(r.Gateways), "gateway", "gateways"), words.Count(len(r.Ranks), "rank", "ranks"), r.At.Format(time.TimeOnly), "Ctrl-C quits"}
	lines := append([]line{{title, strings.Join(head, "  ")}}, r.lines(width, max(height-1, 2))...)
	drawn := make([]string, height)
	for i := range drawn {
		drawn[i] = "\x1b[K" // clears the line; after a full line it would clear the last character
		if i < len(lines) {
			drawn[i] += lines[i].draw(width, color)
		}
	}
	return "\x1b[H" + strings.Join(drawn, "\r\n")
}

// lines lays out a report in at most height lines, at least 2. Diagnoses, gateways and ranks share the
// lines that the totals leave equally. The diagnoses also get the unused lines of the others.
func (r *Report) lines(width, height int) []line {
	below := append([]line{{}}, totals(&r.Totals, width)...)
	third := (height - len(below) - 2) / 3
	if len(r.Gateways) > 1 {
		below = append(append(below, line{}), table(r.Gateways, gatewayColumns, gatewayMark, "gateway", width, third)...)
	}
	below = append(below, line{})
	lines := append(diagnoses(r, width, max(third, height-len(below)-min(third, len(r.Ranks)+1))), below...)
	lines = lines[:min(len(lines), height-1)]
	if len(r.Ranks) == 0 {
		return append(lines, line{plain, "No rank has requested a batch in the last five minutes."})
	}
	return append(lines, table(r.Ranks, rankColumns, rankMark, "rank", width, height-len(lines))...)
}

// diagnoses returns the bottlenecks of all gateways in at most limit lines, the worst first. Gateways
// with the same bottleneck share it.
func diagnoses(r *Report, width, limit int) []line {
	same := map[stats.Limits]int{}
	for _, g := range r.Gateways {
		same[g.Limits]++
	}
	var lines []line
	left := len(r.Gateways)
	for i := range r.Gateways {
		g := &r.Gateways[i]
		n := same[g.Limits]
		if n == 0 {
			continue // shown
		}
		next, room := diagnosis(g, n, width), limit-len(lines)
		if left > n {
			room-- // for the number of others
		}
		if i > 0 && len(next) > room {
			return append(lines, line{faint, words.Count(left, "more gateway has", "more gateways have") + " another bottleneck: --json lists all"})
		}
		lines = append(lines, next[:min(len(next), max(room, 1))]...)
		same[g.Limits] = 0
		left -= n
	}
	return lines
}

// maxLeftOut is the number of members that are named below a gateway's sentence.
const maxLeftOut = 2

// diagnosis returns the bottleneck of n gateways and its cure, wrapped. The first of them is g.
func diagnosis(g *GatewayReport, n, width int) []line {
	text, do, m := clean(short(g.Gateway)), clean(g.Limits.Do), gatewayMark(g)
	if n > 1 {
		text += fmt.Sprintf(" and %d more", n-1)
	}
	text += ": " + clean(g.Limits.Sentence)
	both := text + " Do: " + do
	if do == "" || runewidth.StringWidth(both) > width {
		both = text
	}
	lines := wrapped(m, both, width, "  ")
	if do != "" && both == text {
		lines = append(lines, wrapped(plain, "  Do: "+do, width, "      ")...)
	}
	if g.State == restarted {
		lines = append(lines, wrapped(plain, "  It has been restarted: rates follow with the next poll.", width, "  ")...)
	}
	for i, o := range g.LeftOut {
		if i == maxLeftOut {
			return append(lines, line{plain, "  " + words.Count(len(g.LeftOut)-i, "more member is", "more members are") + " not used"})
		}
		text := fmt.Sprintf("  It does not read from member %s, which is %s", clean(o.ID), clean(o.State))
		if o.Reason != "" {
			text += ": " + clean(o.Reason)
		}
		lines = append(lines, wrapped(wary, text, width, "    ")...)
	}
	return lines
}

// wrapped breaks a text into lines between words.
func wrapped(m mark, text string, width int, indent string) []line {
	return flow(m, width, indent, " ", strings.Split(text, " "))
}

// flow puts as many of the parts into each line as fit.
func flow(m mark, width int, indent, between string, parts []string) []line {
	var lines []line
	text := parts[0]
	for _, p := range parts[1:] {
		if runewidth.StringWidth(text)+len(between)+runewidth.StringWidth(p) > width {
			lines = append(lines, line{m, text})
			text = indent + p
			continue
		}
		text += between + p
	}
	return append(lines, line{m, text})
}

// totals returns the lines of totals over all gateways.
func totals(f *Figures, width int) []line {
	rate := func(text string) string {
		if f.Seconds == 0 {
			return "-"
		}
		return text
	}
	wide := min(max((width-60)/4, 8), 20)
	lines := cells(plain, "Readers", width,
		count(f.SamplesPerSecond)+" samples/s", rate(size(f.BytesPerSecond)+"/s"), rate(count(f.RequestsPS))+" requests/s", "first byte "+rate(count(f.FirstByteMS))+" ms",
		count(f.InFlight)+" in flight", count(f.WaitForMemory)+" wait for memory", rate(count(f.RefusedPS))+" refused/s")
	all := 0.0
	for _, x := range f.Tiers {
		all += x
	}
	from := []string{"-"}
	if f.Seconds > 0 {
		from = nil
		for _, tier := range tiers() {
			if x, has := f.Tiers[tier]; has {
				from = append(from, fmt.Sprintf("%-6s %s %8s/s", tier, bar(x, all, wide), size(x)))
			}
		}
	}
	lines = append(lines, cells(plain, "From", width, from...)...)
	m, store := plain, []string{rate(size(f.StoreBytesPS)+"/s") + " in " + rate(count(f.StoreReadsPS)) + " reads/s"}
	if f.StoreRequestsPS > 0 || f.StoreErrorsPS > 0 {
		store = append(store, count(f.StoreRequestsPS)+" requests/s", count(f.StoreErrorsPS)+" errors/s")
	}
	if f.StoreErrorsPS > 0 {
		m = wary
	}
	lines = append(lines, cells(m, "Store", width, store...)...)
	used := func(part, of float64) string {
		return fmt.Sprintf("%s %s of %s used", bar(part, of, wide), size(part), size(of))
	}
	lines = append(lines, cells(plain, "Memory", width, used(f.MemoryUsed, f.MemoryBytes), size(f.MemoryPinned)+" held", size(f.CacheBytes)+" cached")...)
	if f.DiskBytes > 0 {
		lines = append(lines, cells(plain, "Disk", width, used(f.DiskUsed, f.DiskBytes))...)
	}
	return lines
}

// cells lays out texts after a heading.
func cells(m mark, head string, width int, texts ...string) []line {
	const indent = "          "
	texts[0] = pad(head, len(indent), true) + texts[0]
	return flow(m, width, indent, "   ", texts)
}

func rankMark(r *Rank) mark {
	return map[string]mark{stopped: bad, slow: bad, waits: wary, idle: faint}[r.State]
}

func gatewayMark(g *GatewayReport) mark {
	switch n := severity(*g); {
	case n == 0:
		return bad
	case n < readersLimit: // the bottleneck is not the readers
		return wary
	}
	return plain
}
