package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-data/millrace/integration/harness"
)

const (
	alertsFile    = "../deploy/helm/millrace/alerts.yaml"
	dashboardFile = "../deploy/grafana/dashboard.json"

	// The test scrapes metrics every scrapePause, and gives the rules a scrape interval of
	// scrapeSays: 22 minutes pass in some seconds. The rules compare counters with one another,
	// or gauges with limits, so the interval does not change their results.
	scrapePause = 120 * time.Millisecond
	scrapeSays  = 30 * time.Second
	scrapes     = 45
)

// recording holds the metrics of gateways: the values of each series, one per scrape. "_" is a
// missing value.
type recording map[string][]string

// record scrapes the gateways of a scene while their load runs.
func record(t *testing.T, s scene) recording {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var loading sync.WaitGroup
	loading.Go(func() { s.load(ctx) })
	r := recording{}
	tick := time.NewTicker(scrapePause)
	defer tick.Stop()
	for n := range scrapes {
		for i, g := range s.gateways {
			answer, err := g.TryAdmin(ctx, "/metrics")
			if err != nil || answer.Status != http.StatusOK {
				continue // a gateway that has exited
			}
			r.add(fmt.Sprintf("gw-%d", i), n, string(answer.Body))
		}
		<-tick.C
	}
	cancel()
	loading.Wait()
	for key := range r {
		r.fill(key, scrapes)
	}
	return r
}

// fill pads a series with missing values up to n scrapes.
func (r recording) fill(key string, n int) {
	for len(r[key]) < n {
		r[key] = append(r[key], "_")
	}
}

// add records a gateway's metrics at scrape n.
func (r recording) add(instance string, n int, text string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "millrace_") && !strings.HasPrefix(line, "process_") && !strings.HasPrefix(line, "go_") {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if value == "" {
			key, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		name, labels, _ := strings.Cut(key, "{")
		key = strings.TrimSuffix(fmt.Sprintf("%s{instance=%q,job=%q,%s", name, instance, "millrace", labels), ",") + "}"
		r.fill(key, n)
		r[key] = append(r[key], value)
	}
}

// names returns the names of the recorded metrics.
func (r recording) names() map[string]bool {
	out := map[string]bool{}
	for key := range r {
		name, _, _ := strings.Cut(key, "{")
		out[name] = true
	}
	return out
}

// ruleTest is a test file of promtool, with only the fields that this test uses.
type ruleTest struct {
	RuleFiles []string    `yaml:"rule_files"`
	Every     string      `yaml:"evaluation_interval"`
	Tests     []groupTest `yaml:"tests"`
}

type groupTest struct {
	Interval string        `yaml:"interval"`
	Series   []inputSeries `yaml:"input_series"`
	Exprs    []exprTest    `yaml:"promql_expr_test"`
}

type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type exprTest struct {
	Expr    string   `yaml:"expr"`
	At      string   `yaml:"eval_time"`
	Samples []sample `yaml:"exp_samples"`
}

type sample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// judge evaluates the rules over a recording, and compares the values of expressions at its end.
func (r recording) judge(t *testing.T, exprs ...exprTest) {
	t.Helper()
	rules, err := filepath.Abs(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	group := groupTest{Interval: scrapeSays.String()}
	for key, values := range r {
		group.Series = append(group.Series, inputSeries{key, strings.Join(values, " ")})
	}
	for _, e := range exprs {
		e.At = (scrapeSays * (scrapes - 1)).String()
		group.Exprs = append(group.Exprs, e)
	}
	text, err := yaml.Marshal(ruleTest{RuleFiles: []string{rules}, Every: scrapeSays.String(), Tests: []groupTest{group}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "test.yaml")
	put(t, file, string(text))
	if !promtool(t, "test", "rules", file) {
		for key, values := range r { // possible causes
			if regexp.MustCompile(`_(errors_.*|open|failed_total|refused|refused_total|share)\{`).MatchString(key) && strings.Trim(strings.Join(values, ""), "0_") != "" {
				t.Log(key, values)
			}
		}
	}
}

// promtool runs Prometheus's promtool, and reports whether it succeeded. A failure is a test error.
func promtool(t *testing.T, args ...string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), harness.Installed(t, "promtool"), args...).CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args[:2], " "), err, out)
	}
	return err == nil
}

// fired expects exactly these alerts to have fired during the recording.
func fired(alerts ...string) exprTest {
	e := exprTest{Expr: `max by (alertname) (max_over_time(ALERTS{alertstate="firing"}[2h]))`}
	for _, name := range alerts {
		e.Samples = append(e.Samples, sample{fmt.Sprintf("{alertname=%q}", name), 1})
	}
	return e
}

// alertRules returns the expressions of the rules by alert.
func alertRules(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(alertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = append(out[r.Alert], r.Expr)
		}
	}
	return out
}

// panels returns the expressions of the dashboard by panel, with its variables filled in.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".+", "$dataset", ".*")
	out := map[string][]string{}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 || out[p.Title] != nil {
			t.Errorf("panel %q shows nothing, or is there twice", p.Title)
		}
		for _, target := range p.Targets {
			out[p.Title] = append(out[p.Title], fill.Replace(target.Expr))
		}
	}
	return out
}

// TestAlerts puts gateways into one situation after another. Prometheus's own engine evaluates all
// rules over the gateways' metrics. In each situation the expected alerts fire, and no others.
func TestAlerts(t *testing.T) {
	promtool(t, "check", "rules", alertsFile)
	promtool(t, "test", "rules", "../deploy/grafana/alerts.test.yaml")
	met := map[string]bool{}
	for _, s := range situations() {
		for _, name := range s.alerts {
			met[name] = true
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			pace := harness.WatchPace(t)
			harness.Record(t, nil)
			r := record(t, s.meet(t))
			fault := ""
			if len(s.alerts) == 0 { // a stalled machine may cause an alert
				fault = pace.Fault()
			}
			if harness.Judge(t, fault) {
				r.judge(t, fired(s.alerts...))
			}
		})
	}
	for name := range alertRules(t) {
		if !met[name] {
			t.Errorf("no situation makes %s fire", name)
		}
	}
}

// TestDashboard evaluates each expression of the dashboard over the metrics of healthy gateways.
// Each expression has a result, and the gateways export every metric that the dashboard and the
// alerts use.
func TestDashboard(t *testing.T) {
	r := record(t, healthy(t))
	shown := r.names()
	var exprs []exprTest
	all := alertRules(t)
	for title, of := range panels(t) {
		all[title] = of
		for _, e := range of {
			exprs = append(exprs, exprTest{Expr: "absent(" + e + ")"})
		}
	}
	r.judge(t, exprs...)
	metric := regexp.MustCompile(`\b(millrace|process|go)_[a-z_0-9]+`)
	for where, of := range all {
		for _, name := range metric.FindAllString(strings.Join(of, " "), -1) {
			if !shown[name] {
				t.Errorf("%s: no gateway shows %s", where, name)
			}
		}
	}
	guide, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range alertRules(t) {
		if !bytes.Contains(guide, []byte("| `"+name+"` |")) {
			t.Errorf("docs/operations.md says nothing of %s", name)
		}
	}
	if titles := panels(t); len(titles) < 20 {
		t.Errorf("got panels %v, want a dashboard", slices.Collect(maps.Keys(titles)))
	}
}
