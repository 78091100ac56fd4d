package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/internal/words"
)

// mark is the role of a line, which determines its colour. Colour adds no information.
type mark int

const (
	plain mark = iota
	title
	bad
	wary
	dim
)

// line is one line of the screen.
type line struct {
	mark mark
	text string
}

// style returns the line in its colour, or plain if NO_COLOR is set.
func (l line) style(width int) string {
	text := ansi.Truncate(l.text, width, "~")
	switch l.mark {
	case title:
		return lipgloss.NewStyle().Bold(true).Render(text)
	case bad:
		return lipgloss.NewStyle().Foreground(lipgloss.Red).Render(text)
	case wary:
		return lipgloss.NewStyle().Foreground(lipgloss.Yellow).Render(text)
	case dim:
		return lipgloss.NewStyle().Faint(true).Render(text)
	}
	return text
}

// diagnosis is a bottleneck and the gateways that have it.
type diagnosis struct {
	gateways []string
	first    *GatewayReport
}

// diagnoses returns the bottlenecks of all gateways, the worst first.
func diagnoses(r *Report) []diagnosis {
	var all []diagnosis
	at := map[stats.Limits]int{}
	for i := range r.Gateways {
		g := &r.Gateways[i]
		n, known := at[g.Limits]
		if !known {
			n = len(all)
			at[g.Limits] = n
			all = append(all, diagnosis{first: g})
		}
		all[n].gateways = append(all[n].gateways, clean(short(g.Gateway)))
	}
	return all
}

func (s diagnosis) who() string {
	if n := len(s.gateways); n > 1 {
		return fmt.Sprintf("%s and %d more", s.gateways[0], n-1)
	}
	return s.gateways[0]
}

func (s diagnosis) mark() mark {
	switch n := severity(*s.first); {
	case n == 0:
		return bad
	case n < readersLimit: // the bottleneck is not the readers
		return wary
	}
	return plain
}

func (s diagnosis) text() string { return s.who() + ": " + clean(s.first.Limits.Sentence) }

// lines returns the sentence and the cure, wrapped.
func (s diagnosis) lines(width int) []line {
	m, text, do := s.mark(), s.text(), clean(s.first.Limits.Do)
	var lines []line
	switch both := text + " Do: " + do; {
	case do != "" && ansi.StringWidth(both) <= width:
		lines = []line{{m, both}}
	case do != "":
		lines = append(wrapped(m, text, width, "  "), wrapped(plain, "  Do: "+do, width, "      ")...)
	default:
		lines = wrapped(m, text, width, "  ")
	}
	if s.first.State == restarted {
		lines = append(lines, wrapped(plain, "  It has been restarted: rates follow with the next poll.", width, "  ")...)
	}
	for i, o := range s.first.LeftOut {
		if i == mostLeftOut {
			return append(lines, line{plain, "  " + words.Count(len(s.first.LeftOut)-i, "more member is", "more members are") + " not used"})
		}
		text := fmt.Sprintf("  It does not read from member %s, which is %s", clean(o.ID), clean(o.State))
		if o.Reason != "" {
			text += ": " + clean(o.Reason)
		}
		lines = append(lines, wrapped(wary, text, width, "    ")...)
	}
	return lines
}

// mostLeftOut is the number of members that are named below a gateway's sentence.
const mostLeftOut = 2

// wrapped breaks a text into lines between words.
func wrapped(m mark, text string, width int, indent string) []line {
	var lines []line
	for i, part := range strings.Split(ansi.Wrap(text, max(width-len(indent), 10), ""), "\n") {
		if i > 0 {
			part = indent + part
		}
		lines = append(lines, line{m, strings.TrimRight(part, " ")})
	}
	return lines
}

// limits returns as many diagnoses as fit into most lines, but at least one.
func limits(r *Report, width, most int) []line {
	all := diagnoses(r)
	var lines []line
	for i, s := range all {
		next := s.lines(width)
		if i > 0 && len(lines)+len(next) > most { // the sentence without its cure may fit
			next = wrapped(s.mark(), s.text(), width, "  ")
		}
		if i > 0 && len(lines)+len(next) > most {
			left := 0
			for _, o := range all[i:] {
				left += len(o.gateways)
			}
			return append(lines, line{dim, words.Count(left, "more gateway has", "more gateways have") + " another bottleneck: key g lists all"})
		}
		lines = append(lines, next...)
	}
	return lines
}

// sums returns the lines of totals over all gateways.
func sums(f *Figures, width int) []line {
	rate := func(text string) string {
		if f.Seconds == 0 {
			return "-"
		}
		return text
	}
	const least = 8
	wide := min(max((width-60)/4, least), 20)
	lines := columnsOf(plain, "Readers", []string{
		count(f.SamplesPerSecond) + " samples/s", rate(size(f.BytesPerSecond) + "/s"), rate(count(f.RequestsPS)) + " requests/s", "first byte " + rate(count(f.FirstByteMS)) + " ms",
		count(f.InFlight) + " in flight", count(f.WaitForMemory) + " wait for memory", rate(count(f.RefusedPS)) + " refused/s",
	}, width)
	all := 0.0
	for _, tier := range tiers() {
		all += f.Tiers[tier]
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
	lines = append(lines, columnsOf(plain, "From", from, width)...)
	m, store := plain, []string{rate(size(f.StoreBytesPS)+"/s") + " in " + rate(count(f.StoreReadsPS)) + " reads/s"}
	if f.StoreRequestsPS > 0 || f.StoreErrorsPS > 0 {
		store = append(store, count(f.StoreRequestsPS)+" requests/s", count(f.StoreErrorsPS)+" errors/s")
	}
	if f.StoreErrorsPS > 0 {
		m = wary
	}
	lines = append(lines, columnsOf(m, "Store", store, width)...)
	lines = append(lines, columnsOf(plain, "Memory", []string{
		fmt.Sprintf("%s %s of %s used", bar(f.MemoryUsed, f.MemoryBytes, wide), size(f.MemoryUsed), size(f.MemoryBytes)), size(f.MemoryPinned) + " held", size(f.CacheBytes) + " cached",
	}, width)...)
	if f.DiskBytes > 0 {
		lines = append(lines, columnsOf(plain, "Disk", []string{fmt.Sprintf("%s %s of %s used", bar(f.DiskUsed, f.DiskBytes, wide), size(f.DiskUsed), size(f.DiskBytes))}, width)...)
	}
	return lines
}

// columnsOf puts as many cells into each line as fit.
func columnsOf(m mark, head string, cells []string, width int) []line {
	const indent, between = 10, "   "
	var lines []line
	text := pad(head, indent, true)
	for i, c := range cells {
		switch {
		case i == 0:
			text += c
		case len(text)+len(between)+len(c) <= width:
			text += between + c
		default:
			lines = append(lines, line{m, text})
			text = strings.Repeat(" ", indent) + c
		}
	}
	return append(lines, line{m, text})
}

// Print writes a report as text, for a pipe: all diagnoses, the totals and all ranks.
func (r *Report) Print(width int) string {
	lines := append(limits(r, width, 1<<30), line{})
	lines = append(lines, sums(&r.Totals, width)...)
	lines = append(lines, line{})
	lines = append(lines, ranksTable(r.Ranks, fit(rankColumns(r), width), order{})...)
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(ansi.Truncate(l.text, width, "~"), " ") + "\n")
	}
	return b.String()
}

// ranksTable lays out the given ranks.
func ranksTable(ranks []Rank, columns []column[Rank], o order) []line {
	if len(ranks) == 0 {
		return []line{{plain, "No rank has requested a batch in the last five minutes."}}
	}
	lines := []line{{title, heading(columns, o.by)}}
	for i := range ranks {
		m := plain
		switch ranks[i].State {
		case stopped, slow:
			m = bad
		case waits:
			m = wary
		case idle:
			m = dim
		}
		lines = append(lines, line{m, row(columns, &ranks[i])})
	}
	return lines
}

// gatewaysTable lays out gateways.
func gatewaysTable(gateways []GatewayReport, columns []column[GatewayReport]) []line {
	lines := []line{{title, heading(columns, -2)}}
	for i := range gateways {
		m := plain
		if severity(gateways[i]) == 0 {
			m = bad
		}
		lines = append(lines, line{m, row(columns, &gateways[i])})
	}
	return lines
}
