package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace-data/millrace/integration/harness"
)

const inEpoch = 25 // batches of 16 in an epoch of 400 samples

// works runs a job of eight ranks until the test ends or the returned function is called. Rank 3 is
// slow.
func works(t *testing.T, g *harness.Gateway) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var job sync.WaitGroup
	for rank := range 8 {
		pause := 100 * time.Millisecond
		if rank == 3 {
			pause = 600 * time.Millisecond
		}
		job.Go(func() {
			for m := 0; ctx.Err() == nil; m++ {
				_, _ = g.Try(ctx, fmt.Sprintf("/epoch/%d/batch/%d?batch_size=16&rank=%d&world_size=8", m/inEpoch, m%inEpoch, rank)) // the gateway may be down
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	end = func() { cancel(); job.Wait() }
	t.Cleanup(end)
	return end
}

// shifts is a script that sums the page's layout shift (web vitals) without user input.
const shifts = `window.shift = {sum: 0, of: []};
new PerformanceObserver((list) => list.getEntries().forEach((e) => {
  if (e.hadRecentInput) return;
  shift.sum += e.value;
  shift.of.push(e.value.toFixed(3) + " " + e.sources.map((s) => s.node?.outerHTML?.slice(0, 60) ?? s.node?.nodeName).join(" | "));
})).observe({type: "layout-shift", buffered: true});`

// mostShift is the limit for a good layout shift in web vitals.
const mostShift = 0.1

// hastens returns a script that divides the page's pauses by times.
func hastens(times int) string {
	return fmt.Sprintf(`{ const wait = setTimeout; window.setTimeout = (f, ms, ...more) => wait(f, ms / %d, ...more); }`, times)
}

// begins adds scripts that run before the page's own.
func (v *tab) begins(scripts ...string) {
	v.t.Helper()
	v.do(chromedp.ActionFunc(func(ctx context.Context) error {
		for _, script := range scripts {
			if _, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
}

// opens navigates the tab to a view, and brings it to the front: a hidden tab draws nothing.
func (v *tab) opens(fragment string) {
	v.t.Helper()
	v.do(page.BringToFront(), chromedp.Navigate(v.base+"/#"+fragment))
}

// says evaluates an expression and returns the result as text.
func (v *tab) says(expression string) (text string) {
	v.t.Helper()
	v.do(chromedp.Evaluate("String("+expression+")", &text))
	return text
}

// settles reports too large a layout shift as an error.
func (v *tab) settles(what string) {
	v.t.Helper()
	var moved struct {
		Sum float64
		Of  []string
	}
	v.do(chromedp.Evaluate("shift", &moved))
	v.t.Logf("figure: %s: layout shift %.3f", what, moved.Sum)
	if moved.Sum >= mostShift {
		v.t.Errorf("%s: got a layout shift of %.3f, want less than %.1f: %q", what, moved.Sum, mostShift, moved.Of)
	}
}

// looks waits until the tab has sent n more requests for /v1/stats and drawn the responses.
func (v *tab) looks(n int) {
	v.t.Helper()
	looked := func() (n int) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, asked := range v.urls {
			if strings.Contains(asked, "/v1/stats") {
				n++
			}
		}
		return n
	}
	was, end := looked(), time.Now().Add(patience)
	for seen := was; seen <= was+n; time.Sleep(10 * time.Millisecond) {
		if now := looked(); now > seen {
			seen, end = now, time.Now().Add(patience)
		} else if time.Now().After(end) {
			v.t.Fatalf("the tab looks no more; it shows %s", v.text())
		}
	}
}

var figures = regexp.MustCompile(`[0-9][0-9.,]*`)

// TestPerformance_UnderLoad watches a job of eight ranks, of which rank 3 is slow. Figures change,
// and the sentence is the gateway's. The focus, a selection and the scroll position survive new
// figures. Each rank has an address.
func TestPerformance_UnderLoad(t *testing.T) {
	g := harness.Serve(t, pictures(t, 400), dataset, "--cache-size", "64MiB")
	works(t, g)
	b := open(t)
	v := b.tab(t, g.Admin)
	v.begins(shifts, hastens(5))
	v.size(360, 800, "dark")
	v.opens("/performance")
	v.until(`document.querySelectorAll("#ranks tbody tr").length === 8`)
	for _, figure := range []string{`document.querySelector("#jobs tbody td:nth-child(3)").textContent`, `[...document.querySelectorAll(".chart-frame")].map((f) => f.ariaLabel).join()`} {
		v.do(chromedp.Evaluate("window.figure = "+figure, nil))
		v.until(figure + " !== figure")
	}
	v.settles("performance, under load")
	said := ""
	for try := 0; said == "" && try < 100; try++ { // the tab and the test do not poll at the same moment
		r, err := g.TryAdmin(t.Context(), "/v1/stats")
		if err != nil || r.Status != http.StatusOK {
			t.Fatalf("got status %d and %v, want 200", r.Status, err)
		}
		var stats struct{ Limits struct{ Sentence string } }
		unmarshal(t, string(r.Body), &stats)
		v.looks(1)
		shown := v.says(`document.querySelector("#limits-sentence").textContent`)
		if figures.ReplaceAllString(shown, "N") == figures.ReplaceAllString(stats.Limits.Sentence, "N") && strings.Contains(shown, "ank 3 ") {
			said = shown
		}
	}
	if t.Logf("the page says %q", said); said == "" {
		t.Errorf("the page shows %s, want the sentence of /v1/stats, about rank 3", v.text())
	}

	for _, size := range [][2]int64{{3840, 2160}, {1280, 1600}, {360, 800}} {
		for _, theme := range []string{"light", "dark"} {
			v.size(size[0], size[1], theme)
			v.looks(1)
			v.keep(fmt.Sprintf("live-performance-%d-%s", size[0], theme))
			if wide := v.says("document.documentElement.scrollWidth > innerWidth"); wide == "true" {
				t.Errorf("%d: the page is wider than the window", size[0])
			}
		}
	}

	// keyboard focus, selection and scroll position
	v.do(chromedp.Evaluate(`document.querySelector('#ranks a[href*="rank=3"]').focus(); window.held = document.activeElement; { const wide = document.querySelector("#ranks .wide"); wide.scrollLeft = 30; window.scrolled = wide.scrollLeft; }
		getSelection().selectAllChildren(document.querySelector("#jobs tbody td")); window.chosen = String(getSelection())`, nil))
	v.looks(3)
	if got := v.says(`[document.activeElement === held && held.href.includes("rank=3"), document.querySelector("#ranks .wide").scrollLeft === scrolled && scrolled > 0, String(getSelection()) === chosen && chosen !== ""]`); got != "true,true,true" {
		t.Errorf("after three looks: got %s, want the focus, the scrolling and the selection where they were", got)
	}
	v.do(chromedp.KeyEvent(kb.Enter))
	v.until(`document.activeElement.id === "rank" && location.hash.includes("rank=3") && document.querySelector("#why")`)
	v.until(`document.querySelector("#why").textContent.includes("longer between batches")`)
	v.judge("a rank")
	v.keep("live-rank-360-dark")
	v.do(chromedp.KeyEvent(kb.Escape))
	v.until(`document.querySelector("#rank").hidden && !location.hash.includes("rank") && document.activeElement.hash?.includes("rank=3")`)
	v.clean("under load")

	v = b.tab(t, g.Admin)
	v.begins(shifts)
	v.size(1280, 800, "light")
	v.opens("/performance?rank=3&job=photos&sort=rank")
	v.until(`document.querySelector("#rank h3")?.textContent.startsWith("Rank 3 of photos") && document.querySelector("#sort").value === "rank"`)
	v.keep("live-rank-1280-light")
	v.until(`document.activeElement.id === "rank"`) // so that the element is on the screen
	v.do(chromedp.Click("#rank a[href='#/performance?sort=rank']"))
	v.until(`document.querySelector("#rank").hidden`)
	v.opens("/performance?rank=11")
	v.until(`document.querySelector("#rank").textContent.includes("No such rank")`)
	v.clean("a rank's address")
}

// TestCluster watches a cluster of three gateways. One is killed, and its neighbor's page shows it.
func TestCluster(t *testing.T) {
	store := pictures(t, 400)
	f := harness.NewFleet(t, harness.FleetConfig{Store: store, Dataset: dataset, Size: 3, Args: []string{"--cache-size", "64MiB", "--lame-duck", "300ms"}})
	f.StartAll(t)
	f.Agree(t)
	works(t, f.Members[0].Gateway)
	v := open(t).tab(t, f.Members[0].Admin)
	v.begins(shifts, hastens(5))
	v.size(1280, 1600, "light")
	v.opens("/performance")
	v.until(`document.querySelectorAll("#cluster tbody tr").length === 3 && document.querySelectorAll("#ranks tbody tr").length === 8`)
	v.until(`[...document.querySelectorAll("#cluster tbody tr")].some((r) => r.textContent.includes("gw-1") && !r.textContent.endsWith(" 0 B") && !r.lastChild.textContent.startsWith("0"))`)
	v.judge("cluster")
	v.keep("live-cluster-1280-light")
	f.Members[2].Kill()
	v.until(`[...document.querySelectorAll("#cluster tbody tr")].every((r) => !r.textContent.includes("gw-2") || !r.textContent.includes("alive"))`)
	v.keep("live-cluster-killed")
	v.settles("cluster")
	v.clean("cluster")
}
