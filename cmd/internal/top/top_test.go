package top

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/gateway/stats"
	"github.com/millrace-data/millrace/shuffle"
)

var update = flag.Bool("update", false, "write the golden files anew")

func at(seconds float64) time.Time {
	return time.Date(2031, 5, 6, 7, 8, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// counters returns the counters of a gateway that has been up for so many seconds at a constant load.
func counters(up float64) map[string]float64 {
	c := map[string]float64{"millrace_ready": 1, "millrace_uptime_seconds": up}
	for name, value := range map[string]float64{
		"readers_samples_per_second": 12345, "budget_bytes": 16e9, "budget_used_bytes": 8e9, "budget_pinned_bytes": 3e9, "cache_bytes": 5e9,
		"disk_limit_bytes": 500e9, "disk_bytes": 100e9, "http_in_flight_requests": 13, "budget_waiting": 2,
	} {
		c["millrace_"+name] = value
	}
	for name, each := range map[string]float64{
		`http_response_bytes_total{dataset="photos",route="/"}`: 480e6, `http_response_bytes_total{dataset="",route="/v1/stats"}`: 1e12,
		`http_requests_total{code="200",dataset="photos",route="/"}`: 50, `http_first_byte_seconds_count{dataset="photos",route="/"}`: 50,
		`http_first_byte_seconds_sum{dataset="photos",route="/"}`: 0.6, `tier_bytes_total{dataset="photos",tier="memory"}`: 360e6,
		`tier_bytes_total{dataset="photos",tier="disk"}`: 90e6, `tier_bytes_total{dataset="photos",tier="store"}`: 30e6,
		`store_reads_total{dataset="photos"}`: 60, `store_read_bytes_total{dataset="photos"}`: 48e6, "store_requests_total": 66, "store_errors_throttled_total": 6,
	} {
		c["millrace_"+name] = each * up
	}
	return c
}

func photos(world uint64) stats.Job {
	return stats.Job{Dataset: "photos", Params: shuffle.Params{Shuffle: "window", Seed: 7}, BatchSize: 256, WorldSize: world}
}

// answer returns the poll of a gateway after so many seconds.
func answer(gateway string, seconds, up float64, limits stats.Limits, readers ...stats.Reader) Poll {
	return Poll{Gateway: gateway, At: at(seconds), Stats: Stats{stats.Answer{Version: "1.2.3", Counters: counters(up), Limits: stats.Finding{Limits: limits}, Readers: readers}}}
}

// scene returns two polls of four gateways.
func scene() [][]Poll {
	store := stats.Limits{
		Code: "store", Sentence: "The store limits: it gives 48 MB/s in 60 reads. Rank 0 of 4 of photos waits 90 % of its time for bytes.",
		Do: "more memory or a disk tier, if epochs repeat (millrace simulate says what they save); else a store that is nearer or faster",
	}
	nobody := stats.Limits{Code: "nobody", Sentence: "No reader has requested a batch in the last minute."}
	job := photos(4)
	readers := []stats.Reader{
		{Job: job, Rank: 0, Epoch: 3, Batch: 1700, SamplesPerSecond: 900, ThinkMS: 12, WaitingShare: 0.9, IdleSeconds: 0.2},
		{Job: job, Rank: 1, Epoch: 3, Batch: 1650, BatchesBehind: 50, SamplesPerSecond: 210, ThinkMS: 540, WaitingShare: 0.01, IdleSeconds: 0.1},
		{Job: job, Rank: 2, Epoch: 3, Batch: 1200, BatchesBehind: 500, ThinkMS: 11, WaitingShare: 0.3, IdleSeconds: 90},
		{Job: job, Rank: 3, Epoch: 3, Batch: 1698, BatchesBehind: 2, SamplesPerSecond: 890, ThinkMS: 13, WaitingShare: 0.1, IdleSeconds: 0.3},
		{Job: stats.Job{Dataset: "a/name that is rather long, as people give them", Params: shuffle.Params{Seed: 1}, WorldSize: 1}, Epoch: 1, Batch: 9, SamplesPerSecond: 3.25, IdleSeconds: 200},
	}
	refused := &client.Error{Gateway: "https://gw-9:8081", Status: http.StatusForbidden, Code: client.CodeForbidden}
	polls := func(seconds float64) []Poll {
		return []Poll{
			answer("http://gw-1:8081", seconds, 100+seconds, nobody), answer("http://gw-0:8081", seconds, 1000+seconds, store, readers...),
			{Gateway: "https://gw-9:8081", At: at(seconds), Err: refused},
			answer("http://gw-2:8081", seconds, 100+seconds, nobody),
		}
	}
	return [][]Poll{polls(0), polls(2)}
}

// reported returns the report of the last polls.
func reported(polls ...[]Poll) *Report {
	var h History
	var r Report
	for _, p := range polls {
		r = h.Next(p)
	}
	return &r
}

var sequences = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// visible returns the text of a screen without its sequences and spaces at the ends of lines.
func visible(screen string) string {
	var b strings.Builder
	for _, l := range strings.Split(sequences.ReplaceAllString(screen, ""), "\n") {
		b.WriteString(strings.TrimRight(l, " \r\n") + "\n")
	}
	return b.String()
}

// TestScreens compares screens with reviewed ones.
func TestScreens(t *testing.T) {
	r := reported(scene()...)
	for _, width := range []int{60, 100, 160} {
		drawn := r.screen(width, 30, true)
		got := visible(drawn)
		if n := strings.Count(got, "\n"); n != 30 {
			t.Errorf("%d columns: got %d lines, want 30", width, n)
		}
		for l := range strings.Lines(got) {
			if w := runewidth.StringWidth(strings.TrimSpace(l)); w > width {
				t.Errorf("%d columns: %q is %d wide", width, l, w)
			}
		}
		for _, want := range []string{"\x1b[1mmillrace top", "\x1b[31mhttps://gw-9", "\x1b[33mwaits", "\x1b[31mstopped"} {
			if !strings.Contains(drawn, want) {
				t.Errorf("%d columns: got %q, want %q in it", width, drawn, want)
			}
		}
		if plain := r.screen(width, 30, false); strings.Contains(strings.ReplaceAll(strings.TrimPrefix(plain, "\x1b[H"), "\x1b[K", ""), "\x1b") || visible(plain) != got {
			t.Errorf("%d columns: without colors got %q", width, plain)
		}
		golden(t, fmt.Sprintf("screen-%d.golden", width), got)
	}
	golden(t, "printed.golden", r.Print(160))
}

// TestScreen_FitsAnyTerminal with many gateways that have different bottlenecks.
func TestScreen_FitsAnyTerminal(t *testing.T) {
	var polls []Poll
	for i := range 40 {
		l := stats.Limits{Code: "store", Sentence: fmt.Sprintf("The store limits: it gives %d MB/s.", i), Do: strings.Repeat("more memory ", 20)}
		polls = append(polls, answer(fmt.Sprintf("http://gw-%d:8081", i), 0, 9, l, stats.Reader{Job: photos(40), Rank: uint64(i)}))
	}
	r := reported(polls)
	for width := 1; width < 200; width += 13 {
		for height := 1; height < 70; height++ {
			got := strings.Split(strings.TrimSuffix(visible(r.screen(width, height, true)), "\n"), "\n")
			if len(got) != height || slices.ContainsFunc(got, func(l string) bool { return runewidth.StringWidth(l) > width }) {
				t.Fatalf("%d columns, %d rows: got\n%s", width, height, strings.Join(got, "\n"))
			}
			if width < 40 || height < 3 {
				continue
			}
			gateways := 0 // rows of their table
			for _, l := range got {
				if strings.HasPrefix(l, "ready ") || strings.Contains(l, "limited by") || strings.Contains(l, "more gateways: --json lists all") {
					gateways++
				}
			}
			if last := strings.Join(got[height-2:], ""); !strings.Contains(last, "more ranks: --json lists all") || !strings.HasPrefix(got[1], "gw-0:8081: The store limits") || gateways > max(height/3, 1) || height > 30 && (gateways < 4 || !strings.Contains(got[height-2], "/40")) {
				t.Fatalf("%d columns, %d rows: got\n%s\nwant a diagnosis first, at most %d rows of gateways, ranks, and the number of others last", width, height, strings.Join(got, "\n"), height/3)
			}
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%s: got\n%s\nwant (%v)\n%s", name, got, err, want)
	}
}

// TestRates computes rates from two polls, over each gateway's own time. The first poll has none.
func TestRates(t *testing.T) {
	var h History
	if f := h.Next([]Poll{answer("a", 0, 500, stats.Limits{})}).Totals; f.Seconds != 0 || f.BytesPerSecond != 0 {
		t.Errorf("first poll: got %+v, want no rates", f)
	}
	two := answer("a", 2, 502, stats.Limits{})
	for _, when := range []string{"a new poll", "the same poll again"} {
		f := h.Next([]Poll{two}).Totals
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"seconds", f.Seconds, 2},
			{"bytes", f.BytesPerSecond, 480e6},
			{"requests", f.RequestsPS, 50},
			{"first byte", f.FirstByteMS, 12},
			{"memory", f.Tiers["memory"], 360e6},
			{"store", f.Tiers["store"], 30e6},
			{"reads", f.StoreReadsPS, 60},
			{"errors", f.StoreErrorsPS, 6},
			{"in flight", f.InFlight, 12},
		} {
			if diff := c.got - c.want; diff > c.want/1e6 || -diff > c.want/1e6 {
				t.Errorf("%s, %s: got %v, want %v", when, c.name, c.got, c.want)
			}
		}
	}
}

// TestRates_AfterARestartAreUnknown neither negative nor those of the whole count.
func TestRates_AfterARestartAreUnknown(t *testing.T) {
	var h History
	h.Next([]Poll{answer("a", 0, 100000, stats.Limits{})})
	r := h.Next([]Poll{answer("a", 2, 1, stats.Limits{})})
	if f := r.Totals; f.BytesPerSecond != 0 || f.Seconds != 0 || r.Gateways[0].State != restarted {
		t.Errorf("got %s and %+v, want a restarted gateway without rates", r.Gateways[0].State, f)
	}
	// It was silent meanwhile, and has been up for longer than at the first poll.
	h = History{}
	h.Next([]Poll{answer("a", 0, 3, stats.Limits{})})
	h.Next([]Poll{{Gateway: "a", At: at(2), Err: errors.New("gone")}})
	if f := h.Next([]Poll{answer("a", 60, 50, stats.Limits{})}).Totals; f.BytesPerSecond != 0 {
		t.Errorf("after a silence: got %v B/s, want no rate", f.BytesPerSecond)
	}
	if f := h.Next([]Poll{answer("a", 62, 52, stats.Limits{})}).Totals; f.BytesPerSecond < 479e6 || f.BytesPerSecond > 481e6 {
		t.Errorf("then: got %v B/s, want 480 MB/s", f.BytesPerSecond)
	}
	// One counter alone falls: data paths go when datasets do.
	less := answer("a", 64, 54, stats.Limits{})
	less.Stats.Counters[`millrace_store_reads_total{dataset="photos"}`] = 1
	if f := h.Next([]Poll{less}).Totals; f.StoreReadsPS != 0 {
		t.Errorf("a counter that falls: got %v reads/s, want 0", f.StoreReadsPS)
	}
}

// TestFault_NamesTheCure in the row of the gateway.
func TestFault_NamesTheCure(t *testing.T) {
	for want, err := range map[string]error{
		"admin port":                 &client.Error{Status: 404, Code: client.CodeNotFound},
		"MILLRACE_TOKEN_FILE":        &client.Error{Status: 401, Code: client.CodeUnauthenticated},
		"right admin":                &client.Error{Status: 403, Code: client.CodeForbidden},
		"not the response":           fmt.Errorf("x: %w", client.ErrProtocol),
		"use an address":             &client.Error{Status: 421, Code: "misdirected_request"},
		"correct the address":        errors.New("connection refused"),
		"It has not answered yet.":   errLate,
		"look up x.y: no such host.": fmt.Errorf("z: %w", &net.DNSError{Err: "no such host", Name: "x.y", Server: "1.2.3.4:53"}),
		"is not a gateway":           &client.Error{Status: 502},
	} {
		var h History
		r := reported([]Poll{{Gateway: "http://x:1", At: at(0), Err: err}, answer("http://y:1", 0, 1, stats.Limits{})})
		if got := visible(r.screen(200, 30, true)); !strings.Contains(got, want) || !strings.Contains(got, "Memory ") {
			t.Errorf("%v: got\n%s\nwant %q in it", err, got, want)
		}
		if r := h.Next([]Poll{{Gateway: "x", At: at(0), Err: err}}); r.Gateways[0].State == ready {
			t.Errorf("%v: got a ready gateway", err)
		}
	}
	draining := answer("a", 0, 1, stats.Limits{Code: "store", Sentence: "x", Do: "y"})
	draining.Stats.Counters["millrace_ready"] = 0
	var h History
	if g := h.Next([]Poll{draining}).Gateways[0]; g.State != notReady || !strings.Contains(g.Limits.Sentence, "draining") {
		t.Errorf("got %+v, want a gateway that is not ready", g)
	}
}

// TestLeftOutMembers shows them below the diagnosis of the gateway that does not read from them.
func TestLeftOutMembers(t *testing.T) {
	l := answer("http://a:1", 0, 1, stats.Limits{Code: "peers", Sentence: "Other gateways do not answer."})
	l.Cluster = &Cluster{Members: []Member{
		{ID: "gw-1", State: "alive"}, {ID: "gw-2", State: "suspect"}, {ID: "gw-3", State: "ejected", Reason: "late"}, {ID: "gw-4", State: "gone"}, {ID: "gw-5", State: "gone"},
	}}
	got := visible(reported([]Poll{l}).screen(120, 30, true))
	for _, want := range []string{"It does not read from member gw-3, which is ejected: late\n", "from member gw-4, which is gone\n", "1 more member is not used"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q", got, want)
		}
	}
	if strings.Contains(got, "gw-1") || strings.Contains(got, "gw-2") {
		t.Errorf("got\n%s\nwant no member that answers", got)
	}
}

// TestHostileNames shows that names with control characters cannot change the terminal, and odd columns do not crash.
func TestHostileNames(t *testing.T) {
	evil := "\x1b]0;owned\x07\x1b[2J\r\n\u202egnp\u009b31m" + strings.Repeat("x", 1<<20)
	l := answer(evil, 0, 1, stats.Limits{Code: evil, Sentence: evil, Do: evil}, stats.Reader{Job: stats.Job{Dataset: evil}, SamplesPerSecond: -1e308, WaitingShare: 1e300, IdleSeconds: 1e300, Batch: 1<<64 - 1})
	l.Stats.Version, l.Cluster = evil, &Cluster{Members: []Member{{ID: evil, State: evil, Reason: evil}}}
	l.Stats.Jobs = []stats.Ranks{{Job: stats.Job{Dataset: evil}, Rank: []uint64{1, 2}, Epoch: []uint64{1}}}
	for name := range l.Stats.Counters {
		l.Stats.Counters[name] = 1e308
	}
	r := reported([]Poll{l, {Gateway: "b", At: at(0), Err: errors.New(evil)}})
	for _, s := range []string{r.Print(160), r.screen(100, 60, true), r.screen(40, 200, true)} {
		if clean := sequences.ReplaceAllString(s, ""); strings.ContainsAny(strings.ReplaceAll(clean, "\r\n", ""), "\x1b\r\a\u202e\u009b") || strings.Contains(s, "\x1b[2J") {
			t.Errorf("a sequence reaches the screen:\n%q", s)
		}
		for l := range strings.Lines(visible(s)) {
			if w := runewidth.StringWidth(strings.TrimSpace(l)); w > 160 {
				t.Errorf("a line is %d wide", w)
			}
		}
	}
}

// TestTenThousandRanks draws only the lines of the screen.
func TestTenThousandRanks(t *testing.T) {
	text := strings.Builder{}
	text.WriteString(`{"counters":{"millrace_ready":1},"limits":{},"jobs":[{"dataset":"photos","seed":"7","world_size":10000,"rank":[0`)
	for i := 1; i < 10000; i++ {
		fmt.Fprintf(&text, ",%d", i)
	}
	text.WriteString(`]}]}`)
	var s Stats
	if err := json.Unmarshal([]byte(text.String()), &s); err != nil {
		t.Fatal(err)
	}
	r := reported([]Poll{{Gateway: "a", At: at(0), Stats: s}})
	got := ""
	allocations := testing.AllocsPerRun(19, func() { got = visible(r.screen(100, 30, true)) }) // after one warm-up call
	if most := 2000.; allocations > most {
		t.Errorf("got %v allocations for a screen, want %v at most", allocations, most)
	}
	if n := strings.Count(got, "/10000"); n > 30 || n < 5 || !strings.HasSuffix(got, fmt.Sprintf("\n%s more ranks: --json lists all\n", humanize.Comma(int64(10000-n)))) {
		t.Errorf("got %d ranks:\n%s", n, got)
	}
	if n := strings.Count(r.Print(100), "/10000"); n != 10000 {
		t.Errorf("got %d printed ranks, want all", n)
	}
}

// TestRanks_AreOrderedByUrgency with the worst lag first among equals.
func TestRanks_AreOrderedByUrgency(t *testing.T) {
	var got []string
	for _, r := range reported(scene()...).Ranks {
		got = append(got, fmt.Sprintf("%s %d", r.State, r.Rank))
	}
	if want := []string{"stopped 2", "slow 1", "waits 0", "reads 3", "idle 0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
