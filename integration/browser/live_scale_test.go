package browser_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/integration/harness"
)

// first returns a script that records when a condition of the page is first true and drawn, in
// milliseconds since the navigation.
func first(condition string) string {
	return fmt.Sprintf(`new MutationObserver((_, o) => {
	if (!(%s)) return;
	o.disconnect();
	requestAnimationFrame(() => setTimeout(() => { window.first = performance.now(); }));
}).observe(document, {subtree: true, childList: true, characterData: true, attributes: true});`, condition)
}

// shown opens a view without a cache, and returns the milliseconds until it is on the screen.
func (v *tab) shown(fragment string) (ms float64) {
	v.t.Helper()
	v.do(chromedp.Navigate("about:blank"), network.SetCacheDisabled(true))
	v.opens(fragment)
	v.until(`window.first !== undefined`)
	v.do(chromedp.Evaluate(`first`, &ms))
	return ms
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// million returns a store with a dataset of a million samples, one per chunk.
func million(t *testing.T) *harness.Store {
	t.Helper()
	store := harness.Open(t, "dir")
	if err := os.MkdirAll(filepath.Join(store.Path, dataset), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(store.Path, dataset), "lines.jsonl", string(bytes.Repeat([]byte("[]\n"), 1_000_000)))
	harness.MustRun(t, store, "index", store.Dataset(dataset), "--chunk-size", "3B", "--batch-size", "1000")
	return store
}

// TestScale measures the first display of the performance view with 10,000 ranks that have read a
// batch, alternating with that of a gateway without ranks. Then it measures the shuffle view of a
// million chunks.
func TestScale(t *testing.T) {
	const ranks, turns = 10_000, 5
	store := million(t)
	empty := harness.Serve(t, store, dataset, "--cache-size", "1GiB", "--no-prefetch")
	g := harness.Serve(t, store, dataset, "--cache-size", "1GiB", "--no-prefetch")
	asker := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer asker.CloseIdleConnections()
	var next atomic.Int64
	var readers errgroup.Group
	for range 16 {
		readers.Go(func() error {
			for rank := next.Add(1) - 1; rank < ranks; rank = next.Add(1) - 1 {
				r, err := harness.DoWith(t.Context(), asker, http.MethodGet, fmt.Sprintf("%s/epoch/0/batch/0?shuffle=none&batch_size=%d&rank=%d&world_size=%d", g.URL, ranks, rank, ranks))
				if err != nil || r.Status != http.StatusOK {
					return fmt.Errorf("rank %d: status %d, %w", rank, r.Status, err)
				}
			}
			return nil
		})
	}
	if err := readers.Wait(); err != nil {
		t.Fatal(err)
	}
	b := open(t)
	tab := func(base, there string) *tab {
		v := b.tab(t, base)
		v.begins(first(there), shifts)
		v.size(1280, 800, "light")
		return v
	}
	const asOf = `document.querySelector("#as-of")?.textContent.startsWith("As of")`
	none, v := tab(empty.Admin, asOf), tab(g.Admin, asOf)
	var few, many []float64
	for range turns {
		few, many = append(few, none.shown("/performance")), append(many, v.shown("/performance"))
		v.until(`document.querySelectorAll("#ranks tbody tr").length === 50 && document.querySelector("#ranks").textContent.includes("50 of 10,000 ranks are listed")`)
	}
	v.do(chromedp.Evaluate(`window.longest = 0; new PerformanceObserver((list) => list.getEntries().forEach((e) => { longest = Math.max(longest, e.duration); })).observe({type: "longtask"})`, nil))
	v.looks(3)
	v.settles("10,000 ranks")
	t.Logf("figure: of looks at 10,000 ranks the longest task takes %s ms, 0 if none takes 50", v.says("longest"))
	var took float64
	v.do(chromedp.Evaluate(`{ const at = performance.now(); const filter = document.querySelector("#filter"); filter.value = "rank 9999"; filter.dispatchEvent(new Event("input")); document.querySelector("#ranks").clientHeight; performance.now() - at }`, &took))
	v.until(`document.querySelectorAll("#ranks tbody tr").length === 1`)
	v.keep("live-10000-ranks-1280-light")
	t.Logf("figure: the performance view of 10,000 ranks is there after %.0f ms, that of none after %.0f ms; a filter of the ranks takes %.0f ms; all: %.0f, %.0f", median(many), median(few), took, many, few)
	none.clean("no ranks")
	v.clean("10,000 ranks")

	v = tab(g.URL, `document.querySelector("figure .wide")?.ariaLabel.includes("Arrow keys")`)
	drawn := v.shown("/shuffle/" + dataset)
	if text := v.says(`document.querySelector("figure").textContent`); !strings.Contains(text, "chunks 0 to 999,999") {
		t.Errorf("got %q, want a picture of a million chunks", text)
	}
	v.settles("a million chunks")
	v.keep("live-million-chunks-1280-light")
	v.clean("a million chunks")
	t.Logf("figure: the shuffle of a million chunks is drawn after %.0f ms", drawn)
}
