package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is one column of a table. Narrow screens omit columns: the highest number in leave first.
type column[T any] struct {
	head  string
	key   key // that sorts by it; -1: none
	width int // in characters
	least int // to which a narrow screen shortens it; 0: never shortened
	leave int // 0: never omitted
	left  bool
	cell  func(*T) string
}

const (
	leastName = 8  // characters of a shortened name
	mostName  = 48 // characters of any name
)

// widest returns the width of a column of names with its heading.
func widest[T any](head string, rows []T, name func(*T) string) int {
	wide := len(head)
	for i := range rows {
		wide = max(wide, ansi.StringWidth(name(&rows[i])))
	}
	return min(wide, mostName)
}

func rankColumns(r *Report) []column[Rank] {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	gateway := 9
	if len(r.Gateways) > 1 {
		gateway = 4
	}
	gatewayName := func(r *Rank) string { return clean(short(r.Gateway)) }
	datasetName := func(r *Rank) string { return clean(r.Dataset) }
	return []column[Rank]{
		{"state", need, 7, 0, 0, true, func(r *Rank) string { return r.State }},
		{"gateway", -1, widest("gateway", r.Ranks, gatewayName), leastName, gateway, true, gatewayName},
		{"dataset", name, widest("dataset", r.Ranks, datasetName), leastName, 0, true, datasetName},
		{"rank", -1, 11, 0, 0, false, func(r *Rank) string { return number(r.Rank) + "/" + number(r.WorldSize) }},
		{"epoch", -1, 6, 0, 7, false, func(r *Rank) string { return number(r.Epoch) }},
		{"batch", -1, 9, 0, 5, false, func(r *Rank) string { return number(r.Batch) }},
		{"behind", behind, 7, 0, 3, false, func(r *Rank) string { return number(r.BatchesBehind) }},
		{"samples/s", samples, 10, 0, 0, false, func(r *Rank) string { return count(r.SamplesPerSecond) }},
		{"waits", waiting, 6, 0, 0, false, func(r *Rank) string { return fmt.Sprintf("%.0f %%", 100*min(sane(r.WaitingShare), 1)) }},
		{"gap", gap, 9, 0, 6, false, func(r *Rank) string { return count(r.ThinkMS) + " ms" }},
		{"idle", idling, 7, 0, 8, false, func(r *Rank) string { return seconds(r.IdleSeconds) }},
	}
}

func gatewayColumns(r *Report) []column[GatewayReport] {
	gateway := func(g *GatewayReport) string { return clean(short(g.Gateway)) }
	rate := func(g *GatewayReport, text string) string {
		if g.Figures.Seconds == 0 {
			return "-"
		}
		return text
	}
	return []column[GatewayReport]{
		{"state", -1, 9, 0, 0, true, func(g *GatewayReport) string { return g.State }},
		{"gateway", -1, widest("gateway", r.Gateways, gateway), leastName, 0, true, gateway},
		{"limited by", -1, 12, 0, 0, true, func(g *GatewayReport) string { return clean(g.Limits.Code) }},
		{"samples/s", -1, 10, 0, 0, false, func(g *GatewayReport) string { return count(g.Figures.SamplesPerSecond) }},
		{"bytes/s", -1, 10, 0, 4, false, func(g *GatewayReport) string { return rate(g, size(g.Figures.BytesPerSecond)) }},
		{"store/s", -1, 10, 0, 5, false, func(g *GatewayReport) string { return rate(g, size(g.Figures.StoreBytesPS)) }},
		{"held", -1, 6, 0, 3, false, func(g *GatewayReport) string { return percent(g.Figures.MemoryPinned, g.Figures.MemoryBytes) }},
		{"in flight", -1, 10, 0, 6, false, func(g *GatewayReport) string { return count(g.Figures.InFlight) }},
		{"version", -1, 14, 0, 7, true, func(g *GatewayReport) string { return clean(g.Version) }},
	}
}

// fit cuts names, and leaves out columns, until the others have room.
func fit[T any](all []column[T], width int) []column[T] {
	columns := slices.Clone(all)
	for {
		over, longest, worst := -1-width, -1, -1
		for i, c := range columns {
			over += c.width + 1
			if c.least > 0 && c.width > c.least && (longest < 0 || c.width > columns[longest].width) {
				longest = i
			}
			if c.leave > 0 && (worst < 0 || c.leave > columns[worst].leave) {
				worst = i
			}
		}
		switch {
		case over <= 0:
			return columns
		case longest >= 0 && columns[longest].width > 2*leastName: // a name is still told from others by so much
			columns[longest].width--
		case worst >= 0:
			columns = slices.Delete(columns, worst, worst+1)
		case longest >= 0:
			columns[longest].width--
		default:
			return columns
		}
	}
}

// heading is the first line of a table. The column that orders it is in capitals.
func heading[T any](columns []column[T], by key) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		head := c.head
		if c.key == by {
			head = strings.ToUpper(head)
		}
		cells[i] = pad(head, c.width, c.left)
	}
	return strings.TrimRight(strings.Join(cells, " "), " ")
}

// row is one line of a table.
func row[T any](columns []column[T], x *T) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = pad(c.cell(x), c.width, c.left)
	}
	return strings.TrimRight(strings.Join(cells, " "), " ")
}

// pad makes a text exactly as wide as it may be.
func pad(s string, width int, left bool) string {
	s = ansi.Truncate(s, width, "~")
	space := strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
	if left {
		return s + space
	}
	return space + s
}

// short leaves out what most addresses begin with.
func short(gateway string) string { return strings.TrimPrefix(gateway, "http://") }

// scaled writes a number with three digits and the largest unit that leaves one before the point.
func scaled(x float64, units ...string) string {
	x = sane(x)
	i := 0
	for ; x >= 999.5 && i < len(units)-1; i++ {
		x /= 1000
	}
	switch {
	case x >= 99999: // beyond any real gateway
		return "lots"
	case x >= 99.95 || x == float64(int64(x)) && i == 0:
		return fmt.Sprintf("%.0f%s", x, units[i])
	case x >= 9.995:
		return fmt.Sprintf("%.1f%s", x, units[i])
	}
	return fmt.Sprintf("%.2f%s", x, units[i])
}

func size(bytes float64) string { return scaled(bytes, " B", " kB", " MB", " GB", " TB", " PB") }

func count(x float64) string { return scaled(x, "", "k", "M", "G") }

func percent(part, of float64) string {
	if of <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*min(part/of, 1))
}

func seconds(x float64) string {
	switch x = min(sane(x), 1e6); {
	case x < 10:
		return fmt.Sprintf("%.1f s", x)
	case x < 120:
		return fmt.Sprintf("%.0f s", x)
	}
	return fmt.Sprintf("%.0f min", x/60)
}

// bar draws part of a whole as ASCII, which every terminal has, in width characters and two for its ends.
func bar(part, of float64, width int) string {
	full := 0
	if of > 0 && part > 0 {
		full = min(max(1, int(part/of*float64(width)+0.5)), width)
	}
	return "[" + strings.Repeat("|", full) + strings.Repeat(" ", width-full) + "]"
}
