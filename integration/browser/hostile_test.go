package browser_test

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/integration/harness"
)

func unmarshal(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

// mostBytesOfSet bounds the bytes that the page requests to show a dataset. No dataset has more
// than a megabyte of content to show.
const mostBytesOfSet = 8 << 20

// walker is a script that visits the views of a dataset within the page.
//
//go:embed walk.js
var walker string

// walk is the result of the walker script.
type walk struct {
	Faults  []string
	Samples int
	Bytes   int64      // bytes that the page requested
	Tiles   []string   // tiles of the batch: position, key and state
	Parts   [][]string // names of the parts of each sample
	Said    string
}

// walks visits the views of a dataset in the page, and returns the result.
func (v *tab) walks(name, never, plan string) walk {
	v.t.Helper()
	var found walk
	v.do(chromedp.Evaluate(fmt.Sprintf("walk(%q, %q, %q)", name, cmp.Or(never, "main script"), plan), &found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return found
}

// begin opens the page and loads the walker script.
func (v *tab) begin() {
	v.t.Helper()
	v.size(1280, 4000, "light")
	v.do(chromedp.Navigate(v.base+"/#/data"), chromedp.WaitVisible("main h1"), chromedp.Evaluate(walker+"; undefined", nil))
}

// TestHostileData shows every hostile dataset in the list, in its own view and in a batch, and each
// of its samples in the panel and in the view of a key. No script runs, the page contains no
// element or address from the data, and every view shows a text.
func TestHostileData(t *testing.T) {
	store, args := harness.Open(t, "dir").With("XDG_CACHE_HOME="+t.TempDir()), []string{"--cache-size", "4GiB"}
	sets := hostileSets(t)
	var indexes errgroup.Group
	indexes.SetLimit(4)
	for i, s := range sets {
		dir := filepath.Join(store.Path, s.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		s.write(t, dir)
		indexes.Go(func() error {
			if r := harness.Run(t, store, append([]string{"index", store.Dataset(s.name)}, s.args...)...); r.Code != 0 {
				return fmt.Errorf("index %s: %.600s", s.name, r.Stderr)
			}
			return nil
		})
		if i > 0 {
			args = append(args, "--dataset", s.name+"="+store.Dataset(s.name))
		}
	}
	if err := indexes.Wait(); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(store.Path, damaged), damagedFile)
	g := harness.Serve(t, store, sets[0].name, args...)
	v := open(t).tab(t, g.URL)
	v.begin()
	for _, s := range sets {
		t.Run(s.name, func(t *testing.T) {
			v.t = t
			began, found := time.Now(), v.walks(s.name, s.never, "")
			for _, fault := range found.Faults {
				t.Errorf("%.600s", fault)
			}
			if found.Samples == 0 || !strings.Contains(found.Said, s.says) {
				t.Errorf("got %d samples that say %.3000q, want %q", found.Samples, found.Said, s.says)
			}
			if found.Bytes > mostBytesOfSet {
				t.Errorf("the page has asked for %d bytes, want %d at most", found.Bytes, mostBytesOfSet)
			}
			v.clean(s.name)
			v.forget()
			t.Logf("figure: %d samples, %d bytes, in %v", found.Samples, found.Bytes, time.Since(began).Round(time.Millisecond))
		})
	}
	v.t = t
	v.reads(`{"model": {"vocab": {` + quoted(markup) + `: 1, "__proto__": 2}}, "added_tokens": [{"id": 65535, "content": "<script>alert(30)</script>"}]}`)
	for _, fragment := range []string{"/data/%3Cimg%20src%3Dx%20onerror%3Dalert(12)%3E", "/<img src=x onerror=alert(13)>", "/shuffle/%3Cscript%3Ealert(14)%3C%2Fscript%3E", "/data/labels/sample?key=%3Cimg%20src=x%20onerror=alert(15)%3E", "/data/mix:%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E:1,labels:2", "/data/__proto__", "/__proto__", "/data/labels/epochs/__proto__/batches/NaN?seed=<script>"} {
		var faults []string
		v.do(chromedp.Navigate(g.URL+"/#"+fragment), chromedp.WaitVisible(".problem"), chromedp.Evaluate("alien()", &faults))
		for _, fault := range faults {
			t.Errorf("%s: %s", fragment, fault)
		}
	}
	v.clean("addresses")
	for _, asked := range v.urls {
		if path, own := strings.CutPrefix(asked, g.URL); own && path != "/" && !strings.HasPrefix(path, "/page/") && !strings.HasPrefix(path, "/v1/") {
			t.Errorf("the page has asked for %.200s", asked)
		}
	}
}

// reads makes the page decode tokens with a tokenizer file whose words are markup.
func (v *tab) reads(tokenizer string) {
	v.t.Helper()
	path, faults := filepath.Join(v.t.TempDir(), "tokenizer.json"), []string{}
	put(v.t, filepath.Dir(path), file{"tokenizer.json", tokenizer})
	const choice = "#panel input[type=file]"
	v.do(chromedp.Navigate(v.base+"/#/data/tokens/epochs/0/batches/0?sample=0"), chromedp.WaitVisible(choice), chromedp.SetUploadFiles(choice, []string{path}))
	v.until(`document.querySelector("#panel .part").innerText.includes("onload=alert(3)") && document.querySelector("#panel .part").innerText.includes("<script>alert(30)")`)
	v.do(chromedp.Evaluate("alien()", &faults))
	for _, fault := range faults {
		v.t.Errorf("a tokenizer: %s", fault)
	}
}

// forget clears the recorded faults.
func (v *tab) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.faults = slices.DeleteFunc(v.faults, func(string) bool { return true })
}
