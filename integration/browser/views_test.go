package browser_test

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	dataset   = "photos"
	mostBytes = 200 << 10 // size of the page as sent
)

// pictures packs small pictures in ten classes into chunks of a few samples each.
func pictures(t *testing.T, n int) *harness.Store {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		m := image.NewRGBA(image.Rect(0, 0, 48, 48))
		for p := range 48 * 48 {
			m.Set(p%48, p/48, color.RGBA{uint8(i * 7), uint8(p % 48 * 5), uint8(p / 48 * 5), 255})
		}
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("img-%d.png", i)))
		if err != nil {
			t.Fatal(err)
		}
		if err := png.Encode(f, m); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		write(t, dir, fmt.Sprintf("img-%d.cls", i), fmt.Sprint(i%10))
	}
	store := harness.Open(t, "dir")
	harness.Pack(t, store, dir, dataset, "--batch-size", "16", "--chunk-size", "64KiB")
	return store
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// view is a view of the page, with a condition that is true when it is complete.
type view struct{ name, fragment, there string }

func views() []view {
	return []view{
		{"status", "/status", `document.querySelector("#ready strong")?.textContent === "Ready" && document.querySelector("#usage code")`},
		{"data", "/data", `document.querySelector("#datasets")`},
		{"dataset", "/data/photos", `document.querySelector("main h1")?.textContent.includes("photos") && document.querySelector("#find")`},
		{"batch", "/data/photos/epochs/3/batches/5", `document.querySelectorAll(".tile[data-state=shown] img").length > 0`},
		{"shuffle", "/shuffle/photos", `document.querySelectorAll("main table").length > 1 && document.querySelector("canvas")`},
	}
}

// performanceView returns the view with statistics, which only the admin port serves.
func performanceView() view {
	return view{"performance", "/performance", `document.querySelectorAll("#jobs tbody tr").length === 1 && document.querySelectorAll("#ranks tbody tr").length === 3`}
}

// TestViews shows each view at three sizes, in both themes. axe finds nothing, borders have
// contrast, links in tables are reachable, the policy blocks nothing, no script fails, the page
// requests no other host, and it has at most 200 KB.
func TestViews(t *testing.T) {
	store := pictures(t, 400)
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	harness.MustRun(t, store, "fetch", g.URL, "--world-size", "3", "--all-ranks")
	b := open(t)
	ports := map[string][]view{g.URL: views(), g.Admin: {performanceView(), {"status-admin", "/status", `document.querySelectorAll("#jobs tbody tr").length === 1`}}}
	for _, size := range [][2]int64{{360, 800}, {1280, 800}, {3840, 2160}} {
		for _, theme := range []string{"light", "dark"} {
			for port, all := range ports {
				b.tab(t, port).shows(all, size, theme)
			}
		}
	}
}

// shows opens and checks views one after another.
func (v *tab) shows(all []view, size [2]int64, theme string) {
	v.t.Helper()
	v.size(size[0], size[1], theme)
	for _, at := range all {
		what := fmt.Sprintf("%s-%d-%s", at.name, size[0], theme)
		v.do(chromedp.Navigate(v.base + "/#" + at.fragment))
		v.until("Boolean(" + at.there + ")")
		v.judge(what)
		v.keep(what)
		v.contrasts(what)
		var wide bool
		v.do(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide))
		if wide {
			v.t.Errorf("%s: the page is wider than the window", what)
		}
	}
	v.clean(fmt.Sprint(size, theme))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bytes == 0 || v.bytes > mostBytes {
		v.t.Errorf("got %.0f bytes of the page, want at most %d", v.bytes, mostBytes)
	}
	v.t.Logf("figure: the page took %.0f bytes", v.bytes)
}

// faint is a script that lists controls whose border has a contrast below 3:1 with the background
// around it (WCAG 1.4.11), and links in tables outside of the window.
const faint = `(() => {
	const channels = (color) => color.match(/[0-9.]+/g).map(Number);
	const light = (color) => channels(color).slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) { const color = getComputedStyle(e).backgroundColor; if (channels(color)[3] !== 0) return color; } return "rgb(255, 255, 255)"; };
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
	const controls = [...document.querySelectorAll("button, select, input:not([type=range], [type=file]), a.button")].filter((e) => e.checkVisibility());
	const pale = controls.filter((e) => Math.min(ratio(getComputedStyle(e).borderTopColor, behind(e.parentElement)), ratio(getComputedStyle(e).borderTopColor, behind(e))) < 3);
	const outside = [...document.querySelectorAll("main table a")].filter((a) => a.checkVisibility() && a.getBoundingClientRect().right > innerWidth);
	return [...pale.map((e) => "pale border: " + e.outerHTML.slice(0, 120)), ...outside.map((a) => "outside of the window: " + a.outerHTML.slice(0, 120)), ...(controls.length ? [] : ["no controls"])];
})()`

// contrasts reports faint controls and unreachable links as errors.
func (v *tab) contrasts(what string) {
	v.t.Helper()
	var faults []string
	v.do(chromedp.Evaluate(faint, &faults))
	for _, fault := range faults {
		v.t.Errorf("%s: %s", what, fault)
	}
}

// TestSamples navigates from the start page to a sample of batch 17 of epoch 3, and lists the
// sample's occurrences.
func TestSamples(t *testing.T) {
	g := harness.Serve(t, pictures(t, 400), dataset, "--cache-size", "64MiB")
	v := open(t).tab(t, g.URL)
	v.do(chromedp.Navigate(g.URL+"/"), chromedp.WaitVisible("#datasets"), chromedp.Click(`//main//a[contains(., "photos")]`), chromedp.WaitVisible("#find"))
	v.do(chromedp.Navigate(g.URL + "/#/data/photos/epochs/3/batches/17"))
	v.until(`document.querySelectorAll(".tile[data-state=shown]").length >= 4`)
	m := g.Manifest(t, "/v1/datasets/photos/epochs/3/batches/17", "")
	v.do(chromedp.Click(".tile a"), chromedp.WaitVisible("#panel"))
	v.until(`document.querySelectorAll(".occurrences a").length > 1 && document.querySelector(".take-out code")`)
	var key, line string
	v.do(chromedp.Text(".tile .key", &key), chromedp.Text(".take-out code", &line))
	if !strings.Contains(key, m[0].Key) || !strings.Contains(line, "millrace quarantine") || !strings.Contains(line, m[0].Key) {
		t.Errorf("got %q and %q, want the sample %s of the manifest, and the line that takes it out", key, line, m[0].Key)
	}
	v.clean("a sample")
}

// TestViews_DrawNothingAfterLeaving leaves the view of a sample while the gateway searches for its
// key. The next view stays unchanged.
func TestViews_DrawNothingAfterLeaving(t *testing.T) {
	g := harness.Serve(t, pictures(t, 40), dataset, "--cache-size", "64MiB")
	asked, front := make(chan struct{}, 1), before(t, g.URL)
	front.answers(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/occurrences") {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		front.forward.ServeHTTP(w, r)
	})
	v := open(t).tab(t, front.URL)
	v.do(chromedp.Navigate(front.URL + "/#/data/photos/sample?key=any"))
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatalf("the view has not asked for the key: it shows %q", v.text())
	}
	v.do(chromedp.Navigate(front.URL+"/#/data"), chromedp.WaitVisible("#datasets"), chromedp.Sleep(200*time.Millisecond))
	if got := v.text(); !strings.Contains(got, "This gateway serves one dataset") || strings.Contains(got, "problem") {
		t.Errorf("got %q, want the list of datasets", got)
	}
	v.clean("a view that was left")
}

// TestTokens checks that the page asks for a token and then shows the data. No address contains the
// token.
func TestTokens(t *testing.T) {
	store := pictures(t, 40)
	var made struct{ Token, SHA256 string }
	unmarshal(t, harness.MustRun(t, store, "token", "trainer", "--json"), &made)
	access := filepath.Join(t.TempDir(), "access.yaml")
	write(t, filepath.Dir(access), "access.yaml", fmt.Sprintf(`{tokens: [{name: trainer, sha256: %s}], grants: [{who: ["token:trainer"], datasets: [photos], rights: [read]}]}`, made.SHA256))
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB", "--access", access)
	v := open(t).tab(t, g.URL)
	v.do(chromedp.Navigate(g.URL+"/#/data/photos"), chromedp.WaitVisible(".problem"), chromedp.Click("#token"), chromedp.WaitVisible("#token-text"),
		chromedp.SendKeys("#token-text", made.Token), chromedp.Click(`//dialog//button[.="Use token"]`), chromedp.WaitVisible("#find"))
	for _, asked := range v.urls {
		if strings.Contains(asked, made.Token) || strings.Contains(asked, url.QueryEscape(made.Token)) {
			t.Errorf("the token is in %s", asked)
		}
	}
	var places string
	v.do(chromedp.Evaluate(`[location.href, document.title, document.cookie].join(" ")`, &places))
	if strings.Contains(places, made.Token) {
		t.Errorf("the token is in %s", places)
	}
	v = open(t).tab(t, g.Admin)
	v.do(chromedp.Navigate(g.Admin+"/#/performance"), chromedp.WaitVisible(".problem"), chromedp.Click("#token"), chromedp.WaitVisible("#token-text"),
		chromedp.SendKeys("#token-text", made.Token), chromedp.Click(`//dialog//button[.="Use token"]`))
	v.until(`document.querySelector(".problem").textContent.includes("admin")`)
}
