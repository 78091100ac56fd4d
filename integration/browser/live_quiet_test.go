package browser_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

// door is a proxy in front of a gateway's port that counts requests.
type door struct {
	URL     string
	forward *httputil.ReverseProxy

	mu    sync.Mutex
	looks int                                      // guarded by mu: requests for /v1/stats
	other func(http.ResponseWriter, *http.Request) // guarded by mu: responds instead of the gateway
}

func before(t *testing.T, port string) *door {
	t.Helper()
	target, err := url.Parse(port)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{forward: &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		if strings.HasPrefix(r.URL.Path, "/v1/stats") {
			d.looks++
		}
		other := d.other
		d.mu.Unlock()
		if other != nil {
			other(w, r)
			return
		}
		d.forward.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	d.URL = server.URL
	return d
}

// answers replaces the responses of the gateway; nil restores them.
func (d *door) answers(other func(http.ResponseWriter, *http.Request)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.other = other
}

func (d *door) looked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.looks
}

// TestHiddenTabs_RequestNothing opens two tabs, one of which hides the other. The hidden tab sends
// no request while the visible one sends ten. When it is shown again, it resumes. A closed tab
// cancels its request.
func TestHiddenTabs_RequestNothing(t *testing.T) {
	g := harness.Serve(t, pictures(t, 40), dataset, "--cache-size", "64MiB")
	doors, tabs, b := [2]*door{}, [2]*tab{}, open(t)
	for i := range doors {
		doors[i] = before(t, g.Admin)
		tabs[i] = b.tab(t, doors[i].URL)
		tabs[i].begins(hastens(25))
		tabs[i].opens("/performance")
		tabs[i].until(`document.querySelector("#as-of")?.textContent.startsWith("As of")`)
		tabs[i].until(`document.querySelectorAll(".chart-frame.idle").length === 5 && document.querySelector(".chart-idle").checkVisibility() && document.querySelector(".chart-frame").ariaLabel.endsWith("Nothing was read.")`)
	}
	shown := 1
	for range 2 {
		hidden := 1 - shown
		tabs[shown].do(page.BringToFront())
		tabs[hidden].until("document.hidden && document.readyState === 'complete'")
		tabs[shown].looks(2) // meanwhile the hidden tab receives its last response
		was, watched := doors[hidden].looked(), doors[shown].looked()
		tabs[shown].looks(10)
		if got := doors[hidden].looked() - was; got != 0 {
			t.Errorf("tab %d, which is hidden, asked %d times while the other one asked %d times", hidden, got, doors[shown].looked()-watched)
		}
		shown = hidden // it resumes
	}
	tabs[0].do(page.BringToFront())
	began, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	doors[0].answers(func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			close(began)
			<-r.Context().Done()
			close(ended)
		})
	})
	await(t, began, "the tab asks no more")
	for _, v := range tabs {
		v.clean("hidden and shown")
	}
	if err := chromedp.Cancel(tabs[0].ctx); err != nil {
		t.Fatal(err)
	}
	await(t, ended, "the request of a closed tab goes on")
	was := doors[0].looked()
	tabs[1].do(page.BringToFront())
	tabs[1].looks(5)
	if got := doors[0].looked() - was; got != 0 {
		t.Errorf("a closed tab asked %d times", got)
	}
}

func await(t *testing.T, done <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal(otherwise)
	}
}

// held is the memory of a tab after garbage collection.
type held struct{ heap, nodes, listeners float64 }

func (v *tab) memory() (h held) {
	v.t.Helper()
	var metrics []*performance.Metric
	v.do(heapprofiler.CollectGarbage(), heapprofiler.CollectGarbage(), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		metrics, err = performance.GetMetrics().Do(ctx)
		return err
	}))
	for _, x := range metrics {
		switch x.Name {
		case "JSHeapUsedSize":
			h.heap = x.Value
		case "Nodes":
			h.nodes = x.Value
		case "JSEventListeners":
			h.listeners = x.Value
		}
	}
	return h
}

// least returns the minimum of each figure: a measurement during drawing includes garbage.
func least(all []held) held {
	low := all[0]
	for _, h := range all {
		low = held{min(low.heap, h.heap), min(low.nodes, h.nodes), min(low.listeners, h.listeners)}
	}
	return low
}

// TestMemory_IsFlat watches the performance view of a job at a hundred times the normal pace. After
// many polls the tab holds no more nodes and listeners than after the first ones, and little more
// memory. With MILLRACE_LONG=1 the test runs for ten minutes at the normal pace.
func TestMemory_IsFlat(t *testing.T) {
	g := harness.Serve(t, pictures(t, 400), dataset, "--cache-size", "64MiB")
	works(t, g)
	v := open(t).tab(t, g.Admin)
	rounds, looks := 8, 20
	if os.Getenv("MILLRACE_LONG") == "" {
		v.begins(hastens(100))
	} else {
		rounds, looks = 11, 30
	}
	v.do(performance.Enable())
	v.size(1280, 800, "light")
	v.opens("/performance")
	v.until(`document.querySelectorAll("#ranks tbody tr").length === 8`)
	began, all := time.Now(), []held{}
	for range rounds {
		v.looks(looks)
		all = append(all, v.memory())
		t.Logf("figure: after %v: %.2f MB, %.0f nodes, %.0f listeners", time.Since(began).Round(100*time.Millisecond), all[len(all)-1].heap/1e6, all[len(all)-1].nodes, all[len(all)-1].listeners)
	}
	early, late := least(all[:3]), least(all[len(all)-3:])
	if late.nodes > early.nodes+20 || late.listeners > early.listeners+2 || late.heap > early.heap+1e6 {
		t.Errorf("got %+v at last, want it as at first, %+v, but for the looks that are kept", late, early)
	}
	v.clean("ten minutes")
}
