package browser_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace-data/millrace/integration/harness"
)

// stops is a script that adds functions for the focused element and for all focusable elements.
// Each element has a constant number.
const stops = `{
	const numbers = new WeakMap(); let next = 0;
	const name = (e) => { if (!numbers.has(e)) numbers.set(e, ++next); return numbers.get(e) + " " + e.tagName + " " + (e.id || e.textContent.trim().slice(0, 40)); };
	const can = "a[href], button:not([disabled]), input:not([disabled]), select, textarea, summary, audio, video, [tabindex='0']";
	window.places = () => [...document.querySelectorAll(can)].filter((e) => e.checkVisibility() && e.tabIndex >= 0).map(name);
	window.stop = () => {
		const e = document.activeElement, box = e.getBoundingClientRect();
		if (e === document.body) return "";
		if (!e.matches(":focus-visible") || parseFloat(getComputedStyle(e).outlineWidth) < 2) return "no outline: " + name(e);
		if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth) return "not on the screen: " + name(e);
		return name(e);
	};
}`

// counts is a script that counts the page's pending requests.
const counts = `{
	const ask = fetch;
	window.pending = 0;
	window.fetch = async (...what) => {
		pending++;
		try { return await ask(...what); } finally { pending--; }
	};
}`

// press presses keys, one after another.
func (v *tab) press(keys ...string) {
	v.t.Helper()
	for _, key := range keys {
		v.do(chromedp.KeyEvent(key))
	}
}

// focus focuses an element, as Tab would.
func (v *tab) focus(selector string) {
	v.t.Helper()
	v.do(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).focus()", selector), nil))
}

// tours visits a view with only the Tab key. It reports elements that Tab skips, that are
// invisible, or that trap the focus.
func (v *tab) tours(what string) {
	v.t.Helper()
	v.do(chromedp.Evaluate("document.activeElement.blur(); document.body.focus(); getSelection().removeAllRanges()", nil))
	var seen, places []string
	for len(seen) < 500 {
		v.press(kb.Tab)
		at := v.says("stop()")
		if at == "" || slices.Contains(seen, at) {
			break
		}
		seen = append(seen, at)
	}
	v.do(chromedp.Evaluate("places()", &places))
	slices.Sort(seen)
	slices.Sort(places)
	if v.t.Logf("%s: %d stops", what, len(seen)); !slices.Equal(seen, places) {
		v.t.Errorf("%s: got the stops\n%q, want\n%q", what, seen, places)
	}
}

// TestKeyboard uses every view with only the keyboard. Meanwhile nothing moves by itself.
func TestKeyboard(t *testing.T) {
	store := pictures(t, 80)
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	harness.MustRun(t, store, "fetch", g.URL, "--world-size", "3", "--all-ranks")
	b := open(t)
	v, w := b.tab(t, g.URL), b.tab(t, g.Admin)
	for _, v := range []*tab{v, w} {
		v.begins(stops, counts)
		v.size(1280, 800, "light")
	}
	v.begins(shifts)
	w.begins(shifts, hastens(5))
	all := views()
	all[3].fragment = "/data/photos/epochs/3/batches/2"
	for _, at := range all {
		v.do(chromedp.Navigate("about:blank"))
		v.opens(at.fragment)
		v.until("Boolean(" + at.there + ")")
		v.quiet()
		v.settles(at.name)
		v.tours(at.name)
		v.settles(at.name)
	}
	w.opens("/performance")
	w.until("Boolean(" + performanceView().there + ")")
	w.looks(3)
	w.tours("performance")
	w.settles("performance")

	// The charts, the order of the ranks, and a rank.
	w.focus(".chart-frame")
	w.press(kb.ArrowLeft)
	w.until(`document.querySelector(".chart-at").textContent.startsWith("at ")`)
	w.focus("#sort")
	w.press(kb.ArrowDown)
	w.until(`document.querySelector("#sort").value === "waits" && location.hash.includes("sort=waits")`)
	w.focus(`#ranks a[href*="rank=2"]`)
	w.press(kb.Enter)
	w.until(`document.activeElement.id === "rank"`)
	w.press(kb.Escape)
	w.until(`document.activeElement.hash?.includes("rank=2")`)
	w.clean("the keys of the performance view")

	// The frame: the skip link, the token, the theme, the views.
	v.do(chromedp.Navigate("about:blank"))
	v.opens("/data")
	v.until(`Boolean(document.querySelector("#datasets"))`)
	v.press(kb.Tab)
	v.until(`document.activeElement.matches(".skip") && document.activeElement.getBoundingClientRect().left >= 0`)
	v.press(kb.Enter)
	v.until(`document.activeElement.id === "main"`)
	v.press(kb.Tab)
	v.until(`document.querySelector("main").contains(document.activeElement) && document.activeElement.id !== "main"`)
	v.focus("#token")
	v.press(kb.Enter)
	v.until(`document.activeElement.id === "token-text"`)
	v.press(kb.Escape)
	v.until(`document.activeElement.id === "token" && !document.querySelector("dialog[open]")`)
	v.focus("#theme")
	v.press(" ")
	v.until(`document.documentElement.dataset.theme === "light"`)
	v.focus("#nav-shuffle")
	v.press(kb.Enter)
	v.until(`document.querySelector("main h1")?.textContent === "Shuffle of photos" && document.activeElement.id === "nav-shuffle"`)

	// A batch: the panel of a sample, and the adjacent batches.
	v.opens("/data/photos/epochs/3/batches/2")
	v.until(`document.querySelectorAll(".tile[data-state=shown] img").length > 2`)
	v.focus(".tile:nth-child(2) a.key")
	v.press(kb.Enter)
	v.until(`document.querySelector("#panel").open && document.querySelector("#panel").contains(document.activeElement) && document.querySelectorAll(".occurrences a").length > 1`)
	v.press(kb.Tab, kb.Tab, kb.Tab)
	v.until(`document.activeElement === document.body || document.querySelector("#panel").contains(document.activeElement)`)
	v.judge("the panel")
	v.press(kb.Escape)
	v.until(`!document.querySelector("#panel").open && document.activeElement.matches(".tile:nth-child(2) a.key") && !location.hash.includes("sample")`)
	v.press("j")
	v.until(`document.querySelector("main h1")?.textContent.startsWith("Batch 3 ")`)
	v.press("k")
	v.until(`document.querySelector("main h1")?.textContent.startsWith("Batch 2 ")`)

	// The heatmap of the order.
	v.opens("/shuffle/photos")
	v.until(`document.querySelector("figure .wide[role=img]")?.ariaLabel.includes("Arrow keys")`)
	v.quiet()
	v.focus("figure .wide[role=img]")
	v.do(chromedp.Evaluate(`window.label = document.activeElement.ariaLabel`, nil))
	v.press(kb.ArrowRight)
	v.until(`document.activeElement.ariaLabel !== label`)
	v.press("+")
	v.until(`/[?&]to=/.test(location.hash)`)
	v.press(kb.Enter)
	v.until(`location.hash.includes("/data/photos/epochs/0/batches/") && document.querySelectorAll(".tile").length > 0`)
	v.clean("the keys of the data")
}

// quiet waits until the page has no pending request and has drawn all responses.
func (v *tab) quiet() {
	v.t.Helper()
	v.until(`(() => { const was = window.drawn; window.drawn = document.querySelector("main").innerHTML; return pending === 0 && drawn === was; })()`)
}
