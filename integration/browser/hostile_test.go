package browser_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

func unmarshal(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
}

// markup is what runs where text becomes HTML.
const markup = `<img src=x onerror=alert(1)><script>alert(2)</script><svg onload=alert(3)><iframe srcdoc="<script>parent.alert(4)</script>">`

const drawing = `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="alert(5)"><script>alert(6)</script><image href="http://127.0.0.9/x.png"/>`

// hostile are files of samples that would run something, ask another host, or break what reads them.
func hostile() map[string]string {
	deep := strings.Repeat("[", 1e5)
	return map[string]string{
		"a<img src=x onerror=alert(7)>.txt": markup, "b.html": markup, "c.svg": drawing + "</svg>", "d.json": `{"a": "` + strings.ReplaceAll(markup, `"`, `\"`) + `", "__proto__": {"x": 1}}`,
		"e.json": deep, "f.png": "\x89PNG\r\n\x1a\n" + markup, "g.png": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\x00\x00\x00",
		"h.cls": markup, "i.__proto__": "1", "j.constructor": markup, "k'\"`$(alert).txt": markup, "l\u202egnp.txt": "bidi \u202e" + markup,
		"m.xml": `<?xml-stylesheet href="javascript:alert(8)"?>` + drawing + "</svg>", "n.svg": drawing + `<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="alert(9)"/></foreignObject></svg>`,
		"o.js": "alert(10)", "p.txt": "javascript:alert(11)", "q.wav": "RIFF\xff\xff\xff\xffWAVEfmt " + markup, "r.npy": "\x93NUMPY\x01\x00\xff\xff" + markup, "s.jpg": "\xff\xd8\xff\xe0" + markup, "t.json": `{"n": 1e999999, "m": 123456789012345678901234567890}`,
		"u.txt": strings.Repeat("A", 5000) + markup + "\x00\x01\xff",
	}
}

// TestHostileData shows samples that try to run something, in tiles and whole: nothing runs, and the page holds no element of theirs.
func TestHostileData(t *testing.T) {
	dir := t.TempDir()
	for name, text := range hostile() {
		write(t, dir, name, text)
	}
	store := harness.Open(t, "dir")
	harness.Pack(t, store, dir, dataset, "--batch-size", "64")
	g := harness.Serve(t, store, dataset, "--cache-size", "64MiB")
	v := open(t).tab(t, g.URL)
	v.size(1280, 4000, "light")
	v.do(chromedp.Navigate(g.URL + "/#/data/photos/epochs/0/batches/0"))
	v.until(`document.querySelectorAll(".tile").length > 15 && document.querySelectorAll(".tile:not([data-state])").length === 0`)
	var positions []string
	v.do(chromedp.Evaluate(`[...document.querySelectorAll(".tile")].map((x) => x.dataset.position)`, &positions))
	var alien int
	const aliens = `document.querySelectorAll("main script, iframe, object, embed, main [onload], main [onerror], main [onclick]").length`
	for _, position := range positions {
		v.do(chromedp.Navigate(g.URL+"/#/data/photos/epochs/0/batches/0?sample="+position), chromedp.WaitVisible("#panel"))
		v.until(`document.querySelector("#panel .part, #panel .problem")`)
		v.do(chromedp.Evaluate(aliens, &alien))
		if alien != 0 {
			t.Errorf("sample at %s: got %d elements of the data's own", position, alien)
		}
	}
	for _, fragment := range []string{"/data/" + `%3Cimg%20src%3Dx%20onerror%3Dalert(12)%3E`, "/<img src=x onerror=alert(13)>", "/order/%3Cscript%3Ealert(14)%3C%2Fscript%3E", "/data/photos/sample?key=" + `%3Cimg%20src=x%20onerror=alert(15)%3E`} {
		v.do(chromedp.Navigate(g.URL+"/#"+fragment), chromedp.WaitVisible(".problem"), chromedp.Evaluate(aliens, &alien))
		if alien != 0 {
			t.Errorf("%s: got %d elements of the address's own", fragment, alien)
		}
	}
	v.clean("hostile data")
}
