package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/millrace-data/millrace/integration/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m, "../..")) }

// patience is the timeout of a wait, long enough for busy machines.
const patience = 30 * time.Second

// browser is one Chromium. Each tab has its own context.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func open(t *testing.T, more ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	quiet := chromedp.WithErrorf(func(string, ...any) {}) // events that the library does not know yet
	profile, command := t.TempDir(), (*exec.Cmd)(nil)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(installed(t)),
		chromedp.NoSandbox, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(profile),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			command, cmd.SysProcAttr = cmd, harness.ChildAttributes()
			cmd.SysProcAttr.Setpgid = true
		}))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), append(options, more...)...)
	t.Cleanup(func() {
		stop()
		if command != nil && command.Process != nil {
			end(t, command.Process.Pid, profile)
		}
	})
	ctx, cancel := chromedp.NewContext(ctx, quiet)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return &browser{t, ctx}
}

// end kills the remaining processes of Chromium's group, and removes their profile. The processes
// that store cookies outlive the first process by some tenths of a second, and still write then.
func end(t *testing.T, group int, profile string) {
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		t.Errorf("kill Chromium's processes: %v", err)
	}
	until := time.Now().Add(patience)
	for err := os.RemoveAll(profile); err != nil; err = os.RemoveAll(profile) {
		if time.Now().After(until) {
			t.Errorf("remove Chromium's profile: %v", err)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// installed returns the path of Debian's Chromium, which tools/deps.sh installs.
func installed(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v; run make deps", err)
	}
	return path
}

// tab is one tab, with its recorded faults and requests.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // address of the gateway's port

	mu     sync.Mutex
	faults []string // guarded by mu: script errors, policy violations, requests to other hosts
	urls   []string // guarded by mu: all requests
	bytes  float64  // guarded by mu: size of the page as sent
}

// watch logs policy violations and dialogs as console errors, which the tab's listener records.
const watch = `addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));
window.alert = window.confirm = window.prompt = (text) => { console.error("pwned: " + text); };`

// tab opens a tab for a gateway's page. A request to any address outside base is a fault.
func (b *browser) tab(t *testing.T, base string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil { // the tab lives as long as the context of this run
		t.Fatalf("open a tab: %v", err)
	}
	v := &tab{t: t, ctx: ctx, base: base}
	files := map[network.RequestID]bool{}
	chromedp.ListenTarget(ctx, func(event any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			v.faults = append(v.faults, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				v.faults = append(v.faults, fmt.Sprintf("%s %s", e.Args[0].Value, e.Args[0].Description))
			}
		case *page.EventJavascriptDialogOpening:
			v.faults = append(v.faults, "a dialog: "+e.Message)
		case *network.EventRequestWillBeSent:
			v.urls = append(v.urls, e.Request.URL)
			files[e.RequestID] = e.Request.URL == base+"/" || strings.HasPrefix(e.Request.URL, base+"/page/")
			if !strings.HasPrefix(e.Request.URL, base+"/") && !strings.HasPrefix(e.Request.URL, "blob:"+base) && !strings.HasPrefix(e.Request.URL, "data:") {
				v.faults = append(v.faults, "asked "+e.Request.URL)
			}
		case *network.EventLoadingFinished:
			if files[e.RequestID] {
				v.bytes += e.EncodedDataLength
			}
		}
	})
	v.do(network.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watch).Do(ctx)
		return err
	}))
	return v
}

func (v *tab) do(actions ...chromedp.Action) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		v.t.Fatalf("got %v; the tab shows %q; faults: %q", err, v.text(), v.found())
	}
}

// text returns the tab's visible text, for messages.
func (v *tab) text() string {
	ctx, cancel := context.WithTimeout(v.ctx, 5*time.Second)
	defer cancel()
	var text string
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 600)`, &text)); err != nil {
		return err.Error()
	}
	return text
}

func (v *tab) found() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.faults...)
}

// until waits for a condition of the page. A script error counts as false, because elements may
// still be missing.
func (v *tab) until(condition string) {
	v.t.Helper()
	v.do(chromedp.Poll("(() => { try { return "+condition+"; } catch { return false; } })()", nil, chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(0))) // do has a timeout
}

// clean reports the tab's faults as errors.
func (v *tab) clean(what string) {
	v.t.Helper()
	for _, fault := range v.found() {
		v.t.Errorf("%s: %.300s", what, fault)
	}
}

// size sets the window size and the theme.
func (v *tab) size(width, height int64, theme string) {
	v.t.Helper()
	v.do(chromedp.EmulateViewport(width, height), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}))
}

// judge runs axe-core on the tab, and reports its violations as errors.
func (v *tab) judge(what string) {
	v.t.Helper()
	axe, err := os.ReadFile(harness.Installed(v.t, "axe.min.js"))
	if err != nil {
		v.t.Fatal(err)
	}
	var report string
	v.do(chromedp.Evaluate(string(axe)+"; undefined", nil), chromedp.Evaluate(
		`axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations.map((x) => x.id + ": " + x.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3).join(" | "))))`,
		&report, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	var violations []string
	if err := json.Unmarshal([]byte(report), &violations); err != nil {
		v.t.Fatal(err)
	}
	for _, violation := range violations {
		v.t.Errorf("%s: axe: %s", what, violation)
	}
}

// keep saves a picture of the tab in bin/screenshots.
func (v *tab) keep(name string) {
	v.t.Helper()
	var picture []byte
	v.do(chromedp.CaptureScreenshot(&picture))
	dir := filepath.Join("..", "..", "bin", "screenshots")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		v.t.Fatal(err)
	}
}
