package browser_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// stays marks the document of a tab, to detect a reload.
func (v *tab) stays() {
	v.t.Helper()
	v.do(chromedp.Evaluate(`window.stayed = true`, nil))
}

const (
	silent = `document.querySelector("#status").textContent.includes("does not answer")`
	well   = `document.querySelector("#status").textContent === "" && !document.querySelector(".problem, .banner") && window.stayed`
	asOf   = `document.querySelector("#as-of")?.textContent.startsWith("As of")`
	tiles  = `document.querySelectorAll(".tile[data-state=shown] img").length > 0`
)

// TestPage_OutlivesTheGateway shuts down a gateway, restarts it at the same address, kills and
// restarts it, and simulates overload. The page reports each state, and resumes by itself.
func TestPage_OutlivesTheGateway(t *testing.T) {
	f := harness.NewFleet(t, harness.FleetConfig{Store: pictures(t, 400), Dataset: dataset, Size: 1, Args: []string{"--cache-size", "64MiB", "--lame-duck", "2s"}})
	f.Start(t, 0)
	g := f.Members[0]
	works(t, g.Gateway)
	b := open(t)
	front := before(t, g.URL)
	w, d, o := b.tab(t, g.Admin), b.tab(t, g.URL), b.tab(t, front.URL)
	for v, at := range map[*tab]view{w: {fragment: "/performance", there: asOf}, d: {fragment: "/data/photos/epochs/0/batches/1", there: tiles}, o: {fragment: "/data/photos", there: `document.querySelector("#find")`}} {
		v.begins(hastens(5), `Object.defineProperty(document, "hidden", {value: false})`) // the tabs hide one another
		v.opens(at.fragment)
		v.until("Boolean(" + at.there + ")")
		v.stays()
	}

	g.Terminate()
	w.until(`document.querySelector("#performance-problem").textContent.includes("shutting down")`)
	w.keep("live-draining")
	for _, how := range []string{"ended", "killed"} {
		if how == "killed" {
			g.Kill()
		}
		<-g.Ended()
		w.until(silent + ` && document.querySelector("#as-of").textContent.includes("sends no new ones")`)
		d.do(chromedp.Evaluate(fmt.Sprintf("location.hash = '/data/photos/epochs/0/batches/%d'", len(how)), nil))
		d.until(silent + ` && document.querySelector(".problem")?.textContent.includes("restarting")`)
		w.keep("live-" + how)
		d.judge(how)
		f.Start(t, 0)
		w.until(well + " && " + asOf)
		d.do(page.BringToFront())
		d.until(well + " && " + tiles)
	}
	for _, name := range []string{"Throughput by source", "Samples per second", "Store requests per second"} { // counters have restarted at 0
		if said := w.says(fmt.Sprintf(`[...document.querySelectorAll(".chart-frame")].find((f) => f.ariaLabel.startsWith(%q)).ariaLabel`, name)); strings.Contains(said, " -") && !strings.Contains(said, "unknown") {
			t.Errorf("got %q, want no figure below 0", said)
		}
	}

	front.answers(func(w http.ResponseWriter, _ *http.Request) { // the response of a gateway whose memory is in use
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status": 503, "code": "overloaded", "title": "Gateway out of memory", "detail": "the memory budget is in use", "retryable": true, "retry_after_ms": 900}`)
	})
	o.do(chromedp.Evaluate("location.hash = '/data/photos/epochs/0/batches/2'", nil))
	o.until(`document.querySelector("main").textContent.includes("out of memory") || document.querySelector("main").textContent.includes("memory budget is in use")`)
	o.keep("live-overloaded")
	front.answers(nil)
	o.do(page.BringToFront())
	o.until(well + " && " + tiles)
	for _, v := range []*tab{w, d, o} {
		v.clean("outlived")
	}
}

// TestTokens_OverTLS shows every view over TLS, with the certificate of an authority that only this
// browser trusts. Meanwhile the access file changes. The page reports refusals, and resumes by
// itself.
func TestTokens_OverTLS(t *testing.T) {
	store, ca := pictures(t, 400), certtest.New(t)
	harness.MustRun(t, store, "index", store.Dataset(dataset), "--name", "again", "--batch-size", "16")
	files := ca.Issue(t, t.TempDir(), nil)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	var made struct{ Token, SHA256 string }
	unmarshal(t, harness.MustRun(t, store, "token", "watcher", "--json"), &made)
	dir := t.TempDir()
	allow := func(hash, grants string) {
		write(t, dir, "access.yaml", fmt.Sprintf(`{tokens: [{name: watcher, sha256: %s}], grants: [%s]}`, hash, grants))
	}
	const read, admin = `{who: ["token:watcher"], datasets: ["*"], rights: [read]}`, `{who: ["token:watcher"], rights: [admin]}`
	allow(made.SHA256, read+", "+admin)
	g := harness.ServeTLS(t, files, ca.Pool(), store, dataset, "--cache-size", "64MiB", "--access", filepath.Join(dir, "access.yaml"),
		"--dataset", "more="+store.Dataset(dataset)+"#again", "--mixture", "blend=photos:3,more:1")
	g.MustGet(t, "/epoch/0/batch/0?rank=0&world_size=3", "Authorization", "Bearer "+made.Token)
	key := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
	b := open(t, chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])))
	token := func(v *tab) {
		v.do(chromedp.Click("#token"), chromedp.WaitVisible("#token-text"), chromedp.SendKeys("#token-text", made.Token), chromedp.Click(`//dialog//button[.="Use token"]`))
	}
	v := b.tab(t, g.URL)
	v.size(1280, 800, "dark")
	v.opens("/data")
	v.until(`document.querySelector(".problem button")?.textContent === "Try again" && document.querySelector("main").textContent.includes("Enter a token")`)
	token(v)
	v.until(`document.querySelectorAll("#datasets tbody tr").length === 3`)
	v.shows([]view{
		{"tls-data", "/data", `document.querySelectorAll("#datasets tbody tr").length === 3`},
		{"tls-mixture", "/data/blend", `document.querySelector("main").textContent.includes("Sources of the mixture")`},
		{"tls-mixed-batch", "/data/blend/epochs/0/batches/1", tiles},
		{"tls-mixed-order", "/shuffle/blend", `document.querySelector("main h1")?.textContent.includes("blend")`},
		{"tls-order", "/shuffle/photos", `document.querySelector("main canvas")`},
	}, [2]int64{1280, 800}, "dark")

	v = b.tab(t, g.Admin)
	v.begins(hastens(30))
	v.opens("/performance")
	v.until(`document.querySelector(".problem")?.textContent.includes("admin")`)
	token(v)
	v.until(asOf + ` && document.querySelectorAll("#ranks tbody tr").length === 1`)
	v.stays()
	allow(made.SHA256, read)
	v.until(`document.querySelector("#performance-problem .problem")?.textContent.includes('right "admin"')`)
	v.keep("live-forbidden")
	allow(made.SHA256, read+", "+admin)
	v.until(well + " && " + asOf)
	allow(strings.Repeat("0", 64), read)
	v.until(`document.querySelector("#performance-problem .problem")?.textContent.includes("Use another token")`)
	allow(made.SHA256, read+", "+admin)
	v.until(well + " && " + asOf)
	v.clean("over TLS")
}
