package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/millrace-data/millrace/internal/words"
)

// model is the state of the screen.
type model struct {
	every time.Duration
	begun []Poll // the first polls
	ask   func() []Poll

	history       History
	report        Report
	shown         []Rank // ranks that match the filter, in order
	order         order
	filter        string
	typing        bool // the filter is being typed
	help          bool
	gateways      bool // the table shows gateways instead of ranks
	paused        bool
	asked         bool // an answer is pending, or the timer of the next request runs
	first         int  // line of the table that is shown first
	width, height int
}

func newModel(every time.Duration, begun []Poll, ask func() []Poll) *model {
	return &model{every: every, begun: begun, ask: ask, width: 80, height: 24}
}

// polled is the message with new polls.
type polled []Poll

// due is the message that starts the next requests.
type due struct{}

func (m *model) Init() tea.Cmd {
	m.asked = true
	return func() tea.Msg { return polled(m.begun) }
}

func (m *model) poll() tea.Msg { return polled(m.ask()) }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case polled:
		// Looks that arrive during a pause serve the next comparison, but are not shown.
		if r := m.history.Next(msg); !m.paused {
			m.report = r
			m.arrange()
		}
		return m, tea.Tick(m.every, func(time.Time) tea.Msg { return due{} })
	case due:
		if m.paused {
			m.asked = false
			return m, nil
		}
		return m, m.poll
	case tea.PasteMsg:
		if m.typing {
			m.setFilter(m.filter + msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.press(msg)
	}
	m.scroll(0)
	return m, nil
}

// press handles a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	switch pressed := k.String(); {
	case pressed == "ctrl+c":
		return tea.Quit
	case pressed == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.edit(pressed, k.Text)
	case m.help: // any key closes it
		m.help = false
	case pressed == "q":
		return tea.Quit
	case pressed == "p" || pressed == "space":
		m.paused = !m.paused
		if !m.paused && !m.asked {
			m.asked = true
			return m.poll
		}
	default:
		m.command(pressed)
	}
	return nil
}

// keys are the letters that order the ranks.
func keys() map[string]key {
	return map[string]key{"n": need, "w": waiting, "b": behind, "s": samples, "t": gap, "i": idling, "d": name}
}

// command handles the keys that change only the screen.
func (m *model) command(pressed string) {
	page := max(1, m.room()-1)
	by, orders := keys()[pressed]
	switch {
	case orders && !m.gateways:
		m.order = order{by, m.order.by == by && !m.order.reversed}
		m.first = 0
		m.arrange()
	case pressed == "?" || pressed == "h":
		m.help = true
	case pressed == "g":
		m.gateways, m.first = !m.gateways, 0
	case pressed == "/":
		m.typing, m.gateways = true, false
	case pressed == "esc":
		m.setFilter("")
	case pressed == "down" || pressed == "j":
		m.scroll(1)
	case pressed == "up" || pressed == "k":
		m.scroll(-1)
	case pressed == "pgdown":
		m.scroll(page)
	case pressed == "pgup":
		m.scroll(-page)
	case pressed == "home":
		m.scroll(-m.first)
	case pressed == "end":
		m.scroll(m.rows())
	}
}

// edit handles a key while the user types the filter.
func (m *model) edit(pressed, text string) {
	switch pressed {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.setFilter("")
	case "backspace":
		if r := []rune(m.filter); len(r) > 0 {
			m.setFilter(string(r[:len(r)-1]))
		}
	default:
		m.setFilter(m.filter + text)
	}
}

func (m *model) setFilter(text string) {
	m.filter, m.first = clean(text), 0
	m.arrange()
}

// arrange filters and orders the ranks.
func (m *model) arrange() {
	want := strings.ToLower(m.filter)
	m.shown = slices.Clone(m.report.Ranks)
	if want != "" {
		m.shown = slices.DeleteFunc(m.shown, func(r Rank) bool { return !strings.Contains(strings.ToLower(clean(r.Dataset)), want) })
	}
	m.order.sort(m.shown)
	m.scroll(0)
}

// rows returns the number of the table's rows.
func (m *model) rows() int {
	if m.gateways {
		return len(m.report.Gateways)
	}
	return len(m.shown)
}

// scroll moves the table, within its ends.
func (m *model) scroll(by int) { m.first = max(0, min(m.first+by, m.rows()-m.room())) }

// room returns the number of visible rows of the table.
func (m *model) room() int { return max(1, m.height-len(m.head())-3) }

// leastTable is the number of lines reserved for the title, the table and the keys.
const leastTable = 8

// head returns the lines above the table: the title, the bottlenecks and the totals. A low screen has fewer bottlenecks.
func (m *model) head() []line {
	r := &m.report
	if len(r.Gateways) == 0 {
		return []line{{title, "millrace top"}, {plain, "Polling the gateways ..."}, {}}
	}
	words := []string{"millrace top", words.Count(len(r.Gateways), "gateway", "gateways"), words.Count(len(r.Ranks), "rank", "ranks"), r.At.Format(time.TimeOnly)}
	if m.paused {
		words = append(words, "PAUSED")
	}
	below := append([]line{{}}, sums(&r.Totals, m.width)...)
	lines := append([]line{{title, strings.Join(words, "   ")}}, limits(r, m.width, max(3, m.height-len(below)-leastTable))...)
	return append(append(lines, below...), line{})
}

func (m *model) View() tea.View {
	v := tea.NewView(m.screen())
	v.AltScreen, v.WindowTitle = true, "millrace top"
	return v
}

// screen lays out the lines of the whole screen.
func (m *model) screen() string {
	lines := m.head()
	if m.help {
		lines = helpLines(m.every)
	} else {
		lines = append(lines, m.table()...)
	}
	lines = lines[:min(len(lines), max(0, m.height-1))]
	for len(lines) < m.height-1 {
		lines = append(lines, line{})
	}
	lines = append(lines, line{dim, m.foot()})
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.style(m.width)
	}
	return strings.Join(out, "\n")
}

// table lays out the visible rows.
func (m *model) table() []line {
	last := min(m.first+m.room(), m.rows())
	var lines []line
	switch {
	case m.gateways:
		lines = gatewaysTable(m.report.Gateways[m.first:last], fit(gatewayColumns(&m.report), m.width))
	case m.filter != "" && len(m.shown) == 0:
		return []line{{plain, "No dataset has \"" + m.filter + "\" in its name: esc shows all."}}
	case len(m.report.Gateways) == 0:
		return nil
	default:
		lines = ranksTable(m.shown[m.first:last], fit(rankColumns(&m.report), m.width), m.order)
	}
	if m.rows() > m.room() {
		lines = append(lines, line{dim, fmt.Sprintf("%d to %d of %d: up, down, page up and page down show the others", m.first+1, last, m.rows())})
	}
	return lines
}

// foot returns the last line: as many keys as fit.
func (m *model) foot() string {
	switch {
	case m.typing:
		return "dataset: " + m.filter + "_   enter keep  esc show all"
	case m.help:
		return "any key closes this help"
	}
	words := []string{"q quit", "? help", "p pause", "g gateways", "/ filter", "sort: n urgency", "w waits", "b behind", "s samples/s", "t gap", "i idle", "d dataset"}
	if m.paused {
		words[2] = "p resume"
	}
	if m.gateways {
		words = append(slices.Clone(words[:3]), "g ranks")
	}
	if m.filter != "" {
		words = slices.Insert(words, 3, "filter "+m.filter+" (esc)")
	}
	text := words[0]
	for _, w := range words[1:] {
		if len(text)+2+len(w) > m.width {
			break
		}
		text += "  " + w
	}
	return text
}

func helpLines(every time.Duration) []line {
	text := fmt.Sprintf(`millrace top polls the statistics of each gateway every %v.

The first lines show the bottleneck of each gateway and its cure, the worst first.
Rates cover the time between two polls.

  q, ctrl+c    quit
  p, space     pause polling, or resume
  g            switch between ranks and gateways
  /            filter ranks by dataset: type part of its name; esc shows all
  up, down, page up, page down, home, end    scroll the table
  n w b s t i d    sort by urgency, waits, behind, samples/s, gap, idle, dataset;
                   press the key again to reverse the order

  state    stopped: sends no requests, while other ranks of its job do
           slow: far behind, but not waiting for data: check that machine
           waits: waits for data for more than 20 %% of its time
           reads: no problem found      idle: no rank of its job sends requests
  behind   batches behind the fastest rank of its job
  waits    share of time spent waiting for bytes
  gap      time from the end of a response to the next request
  held     memory that the cache cannot evict`, every)
	lines := []line{}
	for _, l := range strings.Split(text, "\n") {
		lines = append(lines, line{plain, l})
	}
	return lines
}
