package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/millrace-data/millrace/internal/words"
)

// column is one column of a table. Narrow screens omit columns: the highest number in leave first.
type column[T any] struct {
	head  string
	width int  // in characters; set by fit for text
	leave int  // 0: never omitted
	text  bool // as wide as the widest cell, and shortened on narrow screens
	cell  func(*T) string
}

const (
	leastText = 8  // characters of a shortened text
	mostText  = 48 // characters of any text
)

func rankColumns() []column[Rank] {
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return []column[Rank]{
		{"state", 0, 0, true, func(r *Rank) string { return r.State }},
		{"gateway", 0, 6, true, func(r *Rank) string { return clean(short(r.Gateway)) }},
		{"dataset", 0, 0, true, func(r *Rank) string { return clean(r.Dataset) }},
		{"rank", 11, 0, false, func(r *Rank) string { return number(r.Rank) + "/" + number(r.WorldSize) }},
		{"epoch", 6, 8, false, func(r *Rank) string { return number(r.Epoch) }},
		{"batch", 9, 5, false, func(r *Rank) string { return number(r.Batch) }},
		{"behind", 7, 3, false, func(r *Rank) string { return number(r.BatchesBehind) }},
		{"samples/s", 10, 0, false, func(r *Rank) string { return count(r.SamplesPerSecond) }},
		{"waits", 6, 0, false, func(r *Rank) string { return percent(r.WaitingShare, 1) }},
		{"gap", 9, 7, false, func(r *Rank) string { return count(r.ThinkMS) + " ms" }},
		{"idle", 7, 9, false, func(r *Rank) string {
			return words.Duration(time.Duration(min(sane(r.IdleSeconds), 9999)) * time.Second)
		}},
	}
}

func gatewayColumns() []column[GatewayReport] {
	rate := func(g *GatewayReport, x float64) string {
		if g.Figures.Seconds == 0 {
			return "-"
		}
		return size(x)
	}
	return []column[GatewayReport]{
		{"state", 0, 0, true, func(g *GatewayReport) string { return g.State }},
		{"gateway", 0, 0, true, func(g *GatewayReport) string { return clean(short(g.Gateway)) }},
		{"limited by", 0, 0, true, func(g *GatewayReport) string { return clean(g.Limits.Code) }},
		{"samples/s", 10, 0, false, func(g *GatewayReport) string { return count(g.Figures.SamplesPerSecond) }},
		{"bytes/s", 10, 4, false, func(g *GatewayReport) string { return rate(g, g.Figures.BytesPerSecond) }},
		{"store/s", 10, 5, false, func(g *GatewayReport) string { return rate(g, g.Figures.StoreBytesPS) }},
		{"held", 6, 3, false, func(g *GatewayReport) string { return percent(g.Figures.MemoryPinned, g.Figures.MemoryBytes) }},
		{"in flight", 10, 6, false, func(g *GatewayReport) string { return count(g.Figures.InFlight) }},
		{"version", 0, 7, true, func(g *GatewayReport) string { return clean(g.Version) }},
	}
}

// table lays out rows in at most limit lines. The last line counts the rows that do not fit.
func table[T any](rows []T, columnsOf func() []column[T], markOf func(*T) mark, noun string, width, limit int) []line {
	shown := len(rows)
	if shown+1 > limit {
		shown = max(limit-2, 0)
	}
	var lines []line
	if shown > 0 {
		columns := fit(columnsOf(), rows[:shown], width)
		lines = []line{{title, row(columns, func(c column[T]) string { return c.head })}}
		for i := range rows[:shown] {
			lines = append(lines, line{markOf(&rows[i]), row(columns, func(c column[T]) string { return c.cell(&rows[i]) })})
		}
	}
	if left := len(rows) - shown; left > 0 {
		lines = append(lines, line{faint, words.Count(left, "more "+noun, "more "+noun+"s") + ": --json lists all"})
	}
	return lines
}

// fit sets the widths of texts. Then it shortens texts and omits columns until all fit.
func fit[T any](columns []column[T], rows []T, width int) []column[T] {
	for i := range columns {
		if c := &columns[i]; c.text {
			c.width = len(c.head)
			for j := range rows {
				c.width = min(max(c.width, runewidth.StringWidth(c.cell(&rows[j]))), mostText)
			}
		}
	}
	for {
		over, longest, worst := -1-width, -1, -1
		for i, c := range columns {
			over += c.width + 1
			if c.text && c.width > leastText && (longest < 0 || c.width > columns[longest].width) {
				longest = i
			}
			if c.leave > 0 && (worst < 0 || c.leave > columns[worst].leave) {
				worst = i
			}
		}
		switch {
		case over <= 0 || longest < 0 && worst < 0:
			return columns
		case worst < 0 || longest >= 0 && columns[longest].width > 2*leastText: // enough to tell texts apart
			columns[longest].width--
		default:
			columns = slices.Delete(columns, worst, worst+1)
		}
	}
}

// row joins the cells of one line of a table.
func row[T any](columns []column[T], cell func(column[T]) string) string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = pad(cell(c), c.width, c.text)
	}
	return strings.Join(cells, " ")
}

// pad makes a text exactly as wide as it may be.
func pad(s string, width int, left bool) string {
	s = runewidth.Truncate(s, width, "~")
	if left {
		return runewidth.FillRight(s, width)
	}
	return runewidth.FillLeft(s, width)
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
	return fmt.Sprintf("%.0f %%", 100*min(sane(part)/of, 1))
}

// bar draws part of a whole as ASCII, which every terminal has, in width characters and two for its ends.
func bar(part, of float64, width int) string {
	full := 0
	if of > 0 && part > 0 {
		full = min(max(1, int(part/of*float64(width)+0.5)), width)
	}
	return "[" + strings.Repeat("|", full) + strings.Repeat(" ", width-full) + "]"
}
