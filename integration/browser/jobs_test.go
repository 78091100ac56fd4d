package browser_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestJobsPlan shows a job whose plan is not the default. One click leads from the dataset to that
// plan, which stays until the user leaves the dataset. Batches, shuffle and samples are those of
// the job.
func TestJobsPlan(t *testing.T) {
	store := pictures(t, 400)
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB", "--admin-listen=")
	for _, rank := range []string{"0", "1"} {
		g.MustGet(t, "/v1/datasets/photos/epochs/3/batches/2?seed=5&rank="+rank+"&world_size=2")
	}
	v := open(t).tab(t, g.URL)
	v.size(1280, 1600, "light")
	v.do(chromedp.Navigate(g.URL+"/#/data/photos"), chromedp.WaitVisible("#read-now"))
	if said := v.says(`document.querySelector("#read-now").textContent`); !strings.Contains(said, "seed 5") || !strings.Contains(said, "2 of 2 ranks") {
		t.Errorf("got %q, want the job's seed and ranks", said)
	}
	v.judge("jobs that read")
	for _, own := range []string{"/#/shuffle/photos", "/#/data/photos/epochs/3/batches/2"} { // with the default plan, by which no job reads
		v.do(chromedp.Navigate(g.URL+own), chromedp.WaitVisible("#read-now"))
		v.until(`document.querySelector("#read-now").textContent.includes("seed 5")`)
		v.judge("jobs that read, at " + own)
	}
	v.do(chromedp.Navigate(g.URL + "/#/shuffle/photos?seed=5"))
	v.until(`document.querySelector("#mixed") && !document.querySelector("#read-now")`)
	v.do(chromedp.Navigate(g.URL+"/#/data/photos"), chromedp.Click(`//a[.="Batches of this plan"]`))
	v.until(`document.querySelector("#go [name=seed]")?.value === "5"`)
	v.do(chromedp.SetValue("#go [name=epoch]", "3"), chromedp.SetValue("#go [name=batch]", "2"), chromedp.Click("#go button"))
	v.until(`document.querySelectorAll(".tile").length === 16`)
	m := g.Manifest(t, "/v1/datasets/photos/epochs/3/batches/2", "?seed=5")
	if keys := v.says(`[...document.querySelectorAll(".tile .key")].map((k) => k.title).join()`); !strings.HasPrefix(keys, m[0].Key+","+m[1].Key) {
		t.Errorf("got %q, want the samples of seed 5, first %s and %s", keys, m[0].Key, m[1].Key)
	}
	if said := v.says(`document.querySelector("#summary").textContent`); !strings.Contains(said, "seed 5.") {
		t.Errorf("got %q, want the order to be named", said)
	}
	v.do(chromedp.Click("main h1 a"))
	v.until(`document.querySelector("#find") && document.querySelector("#go [name=seed]").value === "5"`)
	v.do(chromedp.SetValue("#find [name=key]", m[0].Key), chromedp.Click("#find button"))
	v.until(`document.querySelector(".occurrences caption")?.textContent.includes("seed 5")`)
	v.do(chromedp.Navigate(g.URL + "/#/data/photos/epochs/3/batches/2?seed=5&rank=1&world_size=2"))
	v.until(`document.querySelectorAll(".tile").length === 8`)
	v.do(chromedp.Click("#whole"))
	v.until(`document.querySelectorAll(".tile").length === 16 && location.hash.includes("seed=5")`)
	v.do(chromedp.Navigate(g.URL + "/#/performance"))
	v.until(`document.querySelectorAll("#jobs tbody a").length === 4`)
	v.do(chromedp.Click(`//*[@id="jobs"]//a[contains(., "seed 5")]`))
	v.until(`document.querySelector("main h1")?.textContent === "Shuffle of photos" && location.hash.includes("seed=5") && location.hash.includes("epoch=3")`)
	v.clean("a job's plan")
}

// TestBatch_ListsUnreadableSamples checks that a batch lists unreadable samples above the tiles.
func TestBatch_ListsUnreadableSamples(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, dir, name+".txt", "a text")
	}
	write(t, dir, "broken.png", "\x89PNG\r\n\x1a\n"+strings.Repeat("garbage", 40))
	write(t, dir, "zeros.jpg", strings.Repeat("\x00", 300))
	store := harness.Open(t, "dir")
	harness.Pack(t, store, dir, dataset, "--batch-size", "5")
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	v := open(t).tab(t, g.URL)
	v.do(chromedp.Navigate(g.URL + "/#/data/photos/epochs/0/batches/0"))
	v.until(`document.querySelectorAll(".tile[data-state]").length === 5`)
	v.until(`/^2 of 5 checked samples cannot be shown: (broken, zeros|zeros, broken)$/.test(document.querySelector("#unread").textContent)`)
	v.do(chromedp.Click(`//*[@id="unread"]//a[.="broken"]`), chromedp.WaitVisible("#panel"))
	v.until(`document.querySelector("#panel .key").textContent === "broken"`)
	v.clean("an unreadable sample")
}
