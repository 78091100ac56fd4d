package browser_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace-data/millrace/integration/harness"
)

// classFolders writes small pictures into ten class folders and indexes them, with a few pictures
// of one class in each chunk.
func classFolders(t *testing.T, store *harness.Store, name string, each int) {
	t.Helper()
	dir := strings.TrimPrefix(store.Dataset(name), "file://")
	for class := range 10 {
		folder := filepath.Join(dir, "pictures", fmt.Sprintf("class-%d", class))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range each {
			f, err := os.Create(filepath.Join(folder, fmt.Sprintf("p%03d.png", i)))
			if err != nil {
				t.Fatal(err)
			}
			if err := png.Encode(f, image.NewGray(image.Rect(0, 0, 8+class, 8+i%9))); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	harness.MustRun(t, store, "index", store.Dataset(name), "--chunk-size", "1KiB", "--batch-size", "16")
}

// folders serves the dataset of these tests on one port, which shows all views.
func folders(t *testing.T) (*harness.Store, *harness.Gateway) {
	t.Helper()
	store := harness.Open(t, "dir")
	classFolders(t, store, dataset, 80)
	return store, harness.Serve(t, store, dataset, "--cache-size", "64MiB", "--admin-listen=")
}

// order opens a shuffle view, and waits for all of its figures.
func (v *tab) order(query string) {
	v.t.Helper()
	v.do(chromedp.Navigate("about:blank"), chromedp.Navigate(v.base+"/#/shuffle/photos?"+query))
	v.drawn()
	v.until(`document.querySelectorAll("#side tbody tr").length > 7 && !document.querySelector("#bought tbody").textContent.includes("undefined")`)
}

const inked = `(() => {
	const c = document.querySelector("canvas"), b = c.getContext("2d").getImageData(0, 0, c.width, c.height).data, seen = new Set();
	for (let i = 0; i < b.length; i += 4) seen.add(b[i] << 16 | b[i + 1] << 8 | b[i + 2]);
	return seen.size;
})()`

// drawn waits until the heatmap has more than two colors.
func (v *tab) drawn() {
	v.t.Helper()
	v.until(`document.querySelector(".wide[role=img]") && !document.querySelector(".wide[role=img]").hasAttribute("aria-busy") && ` + inked + ` > 2`)
}

func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

func (v *tab) eval(script string) string {
	v.t.Helper()
	var text string
	v.do(chromedp.Evaluate(script, &text))
	return text
}

// TestShuffle_DrawsEachOrder checks each order with the chunks in stored and in drawn order, and
// its text alternative.
func TestShuffle_DrawsEachOrder(t *testing.T) {
	_, g := folders(t)
	v := open(t).tab(t, g.URL)
	v.size(1280, 1000, "light")
	pixels := map[string]string{}
	for query, marks := range map[string]string{
		"shuffle=none": "chunk", "shuffle=full": "chunk", "shuffle=window&window=20": "windows: ", "shuffle=slot&window=16": "lanes: 16", "shuffle=slot&window=16&axis=drawn": "lanes: 16",
		"shuffle=window&window=20&axis=drawn": "windows: ",
	} {
		v.order(query)
		shown := v.eval(`document.querySelector("figure.chart").textContent`)
		spoken := v.eval(`document.querySelector(".wide[role=img]").getAttribute("aria-label")`)
		if !strings.Contains(shown, marks) || !strings.Contains(spoken, "samples.") || !strings.Contains(spoken, "Batches 0") && !strings.Contains(spoken, "Batch 0") {
			t.Errorf("%s: the picture is said to be %q, and %q", query, shown, spoken)
		}
		column := v.eval(`Array.from(document.querySelectorAll("figure.chart details tbody td.number"), (x) => x.textContent).join(" ")`)
		if len(strings.Fields(column)) == 0 {
			t.Errorf("%s: the table of the column is empty", query)
		}
		picture := v.eval(`document.querySelector("canvas").toDataURL()`)
		for other, same := range pixels {
			if same == picture {
				t.Errorf("%s is drawn as %s is", query, other)
			}
		}
		pixels[query] = picture
		v.judge(query)
	}
	v.clean("pictures")
}

// address returns the query of the address bar.
func (v *tab) address() url.Values {
	v.t.Helper()
	_, query, _ := strings.Cut(v.eval(`location.hash`), "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		v.t.Fatal(err)
	}
	return values
}

// asked returns the last request for a heatmap.
func (v *tab) asked() url.Values {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, at := range slices.Backward(v.urls) {
		if u, err := url.Parse(at); err == nil && strings.HasSuffix(u.Path, "/draws") && u.Query().Get("columns") != "1" {
			return u.Query()
		}
	}
	return nil
}

func span(v url.Values, from, to string) int {
	var a, b int
	_, _ = fmt.Sscan(v.Get(from), &a)
	_, _ = fmt.Sscan(v.Get(to), &b)
	return b - a
}

// TestShuffle_Zooms zooms with the keyboard, with buttons and with the wheel. Each step requests a
// smaller part and updates the address. Opening that address shows the same part.
func TestShuffle_Zooms(t *testing.T) {
	_, g := folders(t)
	v := open(t).tab(t, g.URL)
	v.size(1280, 1000, "light")
	v.order("shuffle=window&window=20")
	all := v.asked()
	last := ""
	wide, high := span(all, "from", "to"), span(all, "from_chunk", "to_chunk")
	if wide < 40 || high < 40 {
		t.Fatalf("got %v, want more batches and chunks", all)
	}
	for _, step := range []struct {
		how string
		act chromedp.Action
	}{
		{"the key +", chromedp.SendKeys(".wide[role=img]", "+")},
		{"the button", chromedp.Click(`//figure//button[.="+"]`)},
		{"the wheel", chromedp.Evaluate(`(() => { const c = document.querySelector("canvas"), b = c.getBoundingClientRect();
			c.dispatchEvent(new WheelEvent("wheel", {deltaY: -100, clientX: b.left + b.width - 3, clientY: b.top + 3, bubbles: true, cancelable: true})); })()`, nil)},
	} {
		before := v.address().Encode()
		last = valueOf(before, "to")
		v.do(step.act)
		v.until(fmt.Sprintf(`location.hash && new URLSearchParams(location.hash.split("?")[1]).get("to") + new URLSearchParams(location.hash.split("?")[1]).get("from") !== %q`, valueOf(before, "to")+valueOf(before, "from")))
		v.drawn()
		at, asked := v.address(), v.asked()
		w, h := span(at, "from", "to"), span(at, "from_chunk", "to_chunk")
		if w >= wide || h >= high || w != span(asked, "from", "to") || asked.Get("from_chunk") != at.Get("from_chunk") || asked.Get("window") != "20" {
			t.Errorf("%s: got the address %v and the request %v, want a smaller part than %d x %d, the same one", step.how, at, asked, wide, high)
		}
		wide, high = w, h
	}
	at := v.address()
	if at.Get("to") != last || at.Get("from") == "0" {
		t.Errorf("got %v, want the wheel to zoom in to the last batches, up to %s, where the mouse was", at, last)
	}
	v.keep("order-zoomed")
	shown := v.eval(`document.querySelector("figure.chart .small").textContent`)
	other := open(t).tab(t, g.URL)
	other.size(1280, 1000, "light")
	other.order(strings.SplitN(v.eval(`location.hash`), "?", 2)[1])
	if got := other.eval(`document.querySelector("figure.chart .small").textContent`); got != shown || !strings.Contains(got, "Batches "+at.Get("from")) {
		t.Errorf("the address leads to %q, want %q", got, shown)
	}
	other.do(chromedp.SendKeys(".wide[role=img]", kb.ArrowRight+kb.Enter))
	other.until(`location.hash.includes("/batches/") && document.querySelectorAll(".tile").length > 3`)
	v.clean("zoom")
	other.clean("the address")
}

func valueOf(query, name string) string {
	values, _ := url.ParseQuery(query)
	return values.Get(name)
}

// comparison is the output of `millrace plan --json`.
type comparison struct {
	Orders []struct {
		Shuffle     string
		Window      int
		Memory      json.Number `json:"memory_bytes"`
		Variance    json.Number `json:"batch_variance"`
		Variance10  json.Number `json:"batch_variance_10"`
		Variance100 json.Number `json:"batch_variance_100"`
		Reads       json.Number `json:"reads_per_epoch"`
	}
	Locality struct {
		Shares []struct{ Moved json.Number }
	}
}

// TestShuffle_ShowsThePlansFigures compares the page with `millrace plan --json`.
func TestShuffle_ShowsThePlansFigures(t *testing.T) {
	store := harness.Open(t, "dir")
	dir, _ := harness.Files(t, 800, 1000)
	harness.Pack(t, store, dir, dataset, "--batch-size", "16", "--chunk-size", "8KiB")
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	var want, shared comparison
	unmarshal(t, harness.MustRun(t, store, "plan", store.Dataset(dataset), "--shuffle", "slot", "--window", "64", "--world-size", "4", "--json"), &shared)
	moved := shared.Locality.Shares[0].Moved
	unmarshal(t, harness.MustRun(t, store, "plan", store.Dataset(dataset), "--json"), &want)
	v := open(t).tab(t, g.URL)
	v.size(1280, 1600, "light")
	v.order("shuffle=slot&window=64&world_size=4")
	v.keep("order-figures")
	shown := map[string][]string{}
	var rows [][]string
	v.do(chromedp.Evaluate(`Array.from(document.querySelectorAll("#side tbody tr"), (r) => Array.from(r.cells, (c) => c.textContent))`, &rows))
	for _, r := range rows {
		shown[strings.TrimSuffix(r[0], " (chosen)")] = r[1:]
	}
	compared := 0
	for _, o := range want.Orders {
		name := o.Shuffle
		if o.Window > 0 {
			name += fmt.Sprint(" ", o.Window)
		}
		got, ok := shown[name]
		if !ok {
			continue
		}
		compared++
		var row []string
		script := fmt.Sprintf(`import("/page/dom.js").then((m) => [m.short(%s), m.short(%s), m.short(%s), m.size(%s), m.count(%s)])`, o.Variance, o.Variance10, o.Variance100, o.Memory, o.Reads)
		v.do(chromedp.Evaluate(script, &row, awaited))
		if !slices.Equal(append(slices.Clone(got[:3]), got[4:6]...), row) {
			t.Errorf("%s: the page shows %q, the command says %q", name, got, row)
		}
	}
	if compared < 8 {
		t.Errorf("%d of the command's orders are among %q", compared, shown)
	}
	share, err := moved.Float64()
	if got := shown["slot 64"][6]; err != nil || share == 0 || got != fmt.Sprintf("%.0f %%", 100*share) {
		t.Errorf("the page says that locality moves %s, the command %v", got, moved)
	}
	v.clean("figures")
}

// TestShuffle_SliderComparesWindows moves the slider, and compares its figures with the window's own view.
func TestShuffle_SliderComparesWindows(t *testing.T) {
	_, g := folders(t)
	v := open(t).tab(t, g.URL)
	v.size(1280, 1600, "light")
	v.order("shuffle=window&window=16")
	column := func(i int) string {
		v.until(`Array.from(document.querySelectorAll("#bought td"), (x) => x.textContent).every((x) => x !== "-")`)
		return v.eval(fmt.Sprintf(`Array.from(document.querySelectorAll("#bought tr"), (r) => r.cells[%d].textContent).slice(1).join("; ")`, i))
	}
	own := column(1)
	if at := column(2); at != own {
		t.Errorf("the slider begins with %q, want the plan's own %q", at, own)
	}
	v.do(chromedp.Focus("input[type=range]"), chromedp.SendKeys("input[type=range]", kb.ArrowRight+kb.ArrowRight))
	v.until(`document.querySelector("#bought th:nth-child(3)").textContent === "window 64"`)
	bought := column(2)
	if bought == own || strings.Count(bought, ";") != 4 {
		t.Errorf("a window of 64 buys %q, and one of 16 %q", bought, own)
	}
	if spoken := v.eval(`document.querySelector("input[type=range]").getAttribute("aria-valuetext")`); !strings.HasPrefix(spoken, "64 chunks: ") {
		t.Errorf("the slider says %q", spoken)
	}
	v.do(chromedp.ScrollIntoView("#bought"))
	v.keep("order-slider")
	v.do(chromedp.Click(`//button[.="Use this window"]`))
	v.until(`document.querySelector("#side strong")?.textContent === "window 64 (chosen)"`)
	if got := column(1); got != bought {
		t.Errorf("the window's own view says %q, want %q", got, bought)
	}
	v.clean("the slider")
}

// TestShuffle_SaysWhetherDataIsMixed checks the message for mixed data, unmixed data, and labels
// within the data.
func TestShuffle_SaysWhetherDataIsMixed(t *testing.T) {
	_, g := folders(t)
	b := open(t)
	v := b.tab(t, g.URL)
	v.size(360, 800, "light")
	for query, want := range map[string][2]string{
		"shuffle=full":            {"Yes: a batch of 16 draws from ", ": as well as a full shuffle."},
		"shuffle=none":            {"No: a batch of 16 draws from ", "reduces that to "},
		"shuffle=window&window=3": {"No: a batch of 16 draws from ", "reduces that to "},
		"shuffle=slot&window=64":  {"Yes: a batch of 16 draws from ", "measured in 50 batches"},
	} {
		v.order(query)
		if got := v.eval(`document.querySelector("#mixed").textContent`); !strings.HasPrefix(got, want[0]) || !strings.Contains(got, want[1]) || !strings.Contains(got, "measured in") {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
		if got := v.eval(`document.querySelector("#fits").textContent`); !strings.HasPrefix(got, "Yes: this gateway has 64 MiB.") {
			t.Errorf("%s: got %q, want that the memory is large enough", query, got)
		}
	}
	v.keep("order-mixed-360")
	v.clean("folders")

	store := pictures(t, 400)
	g = harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	v = b.tab(t, g.URL)
	v.size(360, 800, "dark")
	v.order("shuffle=full")
	if got := v.eval(`document.querySelector("#mixed").textContent`); !strings.HasPrefix(got, "Yes, even if the data is stored sorted by class: ") {
		t.Errorf("got %q of tars", got)
	}
	if got := v.eval(`document.querySelector("#fits").textContent`); !strings.Contains(got, "--cache-size") || !strings.HasSuffix(got, "Performance shows the size of this gateway.") {
		t.Errorf("got %q, want what the gateway takes, whose memory stands on another port", got)
	}
	v.do(chromedp.Click("#by-label button"))
	v.until(`document.querySelector("#by-label output").textContent.includes("measured in")`)
	if got := v.eval(`document.querySelector("#by-label output").textContent`); !strings.HasPrefix(got, "Yes: the 10 classes of cls vary ") {
		t.Errorf("got %q, want that the ten labels mix", got)
	}
	v.judge("labels")
	v.keep("order-labels-360")
	v.do(chromedp.SetValue("#by-label input", "none"), chromedp.Click("#by-label button"))
	v.until(`document.querySelector("#by-label output").textContent !== "Reading ..." && !document.querySelector("#by-label output").textContent.startsWith("Yes")`)
	t.Logf("a label that is not there: %s", v.eval(`document.querySelector("#by-label output").textContent`))
	v.clean("tars")
}

// TestShuffle_OfMixturesLinksToSources checks that a mixture has no heatmap, but links to its
// sources.
func TestShuffle_OfMixturesLinksToSources(t *testing.T) {
	store := harness.Open(t, "dir")
	classFolders(t, store, dataset, 20)
	classFolders(t, store, "more", 5)
	mixed := harness.Serve(t, store, dataset, "--dataset", "more="+store.Dataset("more"), "--mixture", "blend=photos:3,more:1")
	v := open(t).tab(t, mixed.URL)
	v.do(chromedp.Navigate(mixed.URL+"/#/shuffle/blend"), chromedp.WaitVisible("main ul"))
	if got := v.eval(`Array.from(document.querySelectorAll("main li"), (x) => x.textContent).join(" ")`); got != "photos more" {
		t.Errorf("got links to %q, want the sources", got)
	}
	v.judge("a mixture")
	v.do(chromedp.Click(`//main//a[.="photos"]`))
	v.drawn()
	v.clean("a mixture")
}

// TestShuffle_SaysThatTheCacheIsTooSmall checks the message if the plan's chunks do not fit in the
// cache.
func TestShuffle_SaysThatTheCacheIsTooSmall(t *testing.T) {
	store := harness.Open(t, "dir")
	dir, _ := harness.Files(t, 300, 300<<10)
	harness.Pack(t, store, dir, dataset, "--batch-size", "16", "--chunk-size", "1MiB")
	g := harness.Serve(t, store, dataset, "--cache-size", "48MiB", "--admin-listen=")
	v := open(t).tab(t, g.URL)
	v.order("shuffle=window&window=64")
	if got := v.eval(`document.querySelector("#fits").textContent`); !strings.HasPrefix(got, "No: this gateway has 48 MiB.") || !strings.Contains(got, "2 such gateways") {
		t.Errorf("got %q", got)
	}
	v.order("shuffle=window&window=4")
	if got := v.eval(`document.querySelector("#fits").textContent`); !strings.HasPrefix(got, "Yes: this gateway has 48 MiB.") {
		t.Errorf("got %q", got)
	}
	v.clean("a small cache")
}
