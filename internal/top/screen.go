package top

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// mark says what a line of the screen is, for its colour. The words alone say everything too.
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

// style returns a line with its colour, which the terminal's library leaves out where NO_COLOR is set.
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

// said is what gateways say: those that say the same are told together.
type said struct {
	gateways []string
	first    *GatewayReport
}

// sayings are the sentences of the gateways, the worst first.
func sayings(r *Report) []said {
	var all []said
	at := map[Limits]int{}
	for i := range r.Gateways {
		g := &r.Gateways[i]
		n, known := at[g.Limits]
		if !known {
			n = len(all)
			at[g.Limits] = n
			all = append(all, said{first: g})
		}
		all[n].gateways = append(all[n].gateways, clean(short(g.Gateway)))
	}
	return all
}

func (s said) who() string {
	if n := len(s.gateways); n > 1 {
		return fmt.Sprintf("%s and %d more", s.gateways[0], n-1)
	}
	return s.gateways[0]
}

// lines are the sentence of a gateway, and what to do, wrapped.
func (s said) lines(width int) []line {
	m := plain
	switch n := severity(*s.first); {
	case n == 0:
		m = bad
	case n < 10: // something but the readers limits
		m = wary
	}
	lines := wrapped(m, s.who()+": "+clean(s.first.Limits.Sentence), width, "  ")
	if do := s.first.Limits.Do; do != "" {
		lines = append(lines, wrapped(plain, "  Do: "+clean(do), width, "      ")...)
	}
	if s.first.State == restarted {
		lines = append(lines, wrapped(plain, "  It has been restarted: rates come with the next look.", width, "  ")...)
	}
	for i, o := range s.first.Cluster {
		if i == 2 {
			lines = append(lines, line{plain, fmt.Sprintf("  and %d more members that it does not ask", len(s.first.Cluster)-i)})
			break
		}
		lines = append(lines, wrapped(wary, fmt.Sprintf("  Its member %s is %s: %s", clean(o.ID), clean(o.State), clean(o.Reason)), width, "    ")...)
	}
	return lines
}

// wrapped cuts a text into lines between words.
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

// limits are the sentences of as many gateways as most lines have room for, one at least.
func limits(r *Report, width, most int) []line {
	all := sayings(r)
	var lines []line
	for i, s := range all {
		next := s.lines(width)
		if i > 0 && len(lines)+len(next) > most {
			left := 0
			for _, o := range all[i:] {
				left += len(o.gateways)
			}
			return append(lines, line{dim, fmt.Sprintf("%d more gateways say other things: key g lists them", left)})
		}
		lines = append(lines, next...)
	}
	return lines
}

// sums are the lines about all gateways together.
func sums(f *Figures, width int) []line {
	rate := func(text string) string {
		if f.Seconds == 0 {
			return "-"
		}
		return text
	}
	const least = 8
	wide := min(max((width-60)/4, least), 20)
	lines := []line{
		{plain, fmt.Sprintf("Readers   %s samples/s  %s  %s requests/s  first byte %s ms", count(f.SamplesPerSecond), rate(size(f.BytesPerSecond)+"/s"),
			rate(count(f.RequestsPS)), rate(count(f.FirstByteMS)))},
		{plain, fmt.Sprintf("          %s in flight  %s wait for memory  %s/s refused", count(f.InFlight), count(f.WaitForMemory), rate(count(f.RefusedPS)))},
	}
	all := 0.0
	for _, tier := range tiers() {
		all += f.Tiers[tier]
	}
	if f.Seconds == 0 {
		lines = append(lines, line{plain, "From      -"})
	} else {
		var cells []string
		for _, tier := range tiers() {
			cells = append(cells, fmt.Sprintf("%-6s %s %8s/s", tier, bar(f.Tiers[tier], all, wide), size(f.Tiers[tier])))
		}
		lines = append(lines, columnsOf("From      ", cells, width)...)
	}
	store := fmt.Sprintf("Store     %s/s in %s reads/s", rate(size(f.StoreBytesPS)), rate(count(f.StoreReadsPS)))
	if f.StoreRequestsPS > 0 || f.StoreErrorsPS > 0 {
		store += fmt.Sprintf("  %s requests/s  %s errors/s", count(f.StoreRequestsPS), count(f.StoreErrorsPS))
	}
	m := plain
	if f.StoreErrorsPS > 0 {
		m = wary
	}
	lines = append(lines, line{m, store})
	lines = append(lines, line{plain, fmt.Sprintf("Memory    %s %s of %s used, %s held, %s cached", bar(f.MemoryUsed, f.MemoryBytes, wide), size(f.MemoryUsed), size(f.MemoryBytes),
		size(f.MemoryPinned), size(f.CacheBytes))})
	if f.DiskBytes > 0 {
		lines = append(lines, line{plain, fmt.Sprintf("Disk      %s %s of %s used", bar(f.DiskUsed, f.DiskBytes, wide), size(f.DiskUsed), size(f.DiskBytes))})
	}
	return lines
}

// columnsOf puts as many cells into each line as it has room for.
func columnsOf(head string, cells []string, width int) []line {
	var lines []line
	text := head
	for i, c := range cells {
		switch {
		case i == 0:
			text += c
		case len(text)+3+len(c) <= width:
			text += "   " + c
		default:
			lines = append(lines, line{plain, text})
			text = strings.Repeat(" ", len(head)) + c
		}
	}
	return append(lines, line{plain, text})
}

// Print writes a report as text, for a pipe: all gateways' sentences, the sums, and all ranks.
func (r *Report) Print(width int) string {
	lines := append(limits(r, width, 1<<30), line{})
	lines = append(lines, sums(&r.Totals, width)...)
	lines = append(lines, line{})
	lines = append(lines, ranksTable(r.Ranks, len(r.Gateways) > 1, order{}, width)...)
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(strings.TrimRight(ansi.Truncate(l.text, width, "~"), " ") + "\n")
	}
	return b.String()
}

// ranksTable lays out ranks, which are those that are shown.
func ranksTable(ranks []Rank, several bool, o order, width int) []line {
	if len(ranks) == 0 {
		return []line{{plain, "No rank has read in the last five minutes."}}
	}
	columns := fit(rankColumns(several), width)
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
func gatewaysTable(gateways []GatewayReport, width int) []line {
	columns := fit(gatewayColumns(), width)
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
