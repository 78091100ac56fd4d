package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
)

// needs returns the right that the API and its documents require for a route. It is written by
// hand: a new route fails the test until its right is added here.
func needs(method, pattern string) string {
	switch {
	case slices.Contains([]string{"/healthz", "/readyz", "/openapi.json", "/", "/page/{file}"}, pattern):
		return "none"
	case pattern == "/metrics" || pattern == "/v1/stats" || pattern == "/v1/cluster" || pattern == "/v1/reload" || strings.HasPrefix(pattern, "/debug/pprof/"):
		return "admin"
	case method == "POST" && strings.HasSuffix(pattern, "{dataset}/warm"):
		return "warm"
	case method == "POST" && (strings.Contains(pattern, "{dataset}/importance") || strings.HasSuffix(pattern, "{dataset}/subsets") || strings.HasSuffix(pattern, "{dataset}/schedules")):
		return "report"
	case method == "GET" && (strings.HasPrefix(pattern, "/epoch/") || strings.HasPrefix(pattern, "/v1/datasets")):
		return "read"
	}
	return "somebody has to say which"
}

// Outcomes that the contract defines for a caller.
const (
	served    = "served"
	challenge = "401"
	forbidden = "403"
	hidden    = "404, as what is not there"
)

// expected is the oracle: it returns the outcome according to docs/access.md.
func expected(c caller, route, right, dataset string) string {
	switch {
	case right == "none":
		return served
	case c.invalid:
		return challenge
	case right == "admin" && c.admin:
		return served
	case right == "admin" && c.anonymous():
		return challenge
	case right == "admin":
		return forbidden
	case route == "/v1/datasets": // contains "open", which all callers may read
		return served
	case c.may(right, dataset) && there(dataset):
		return served
	case c.may("read", dataset) && there(dataset):
		return forbidden
	case c.anonymous():
		return challenge
	}
	return hidden
}

func there(dataset string) bool { return slices.Contains(allDatasets, dataset) }

var allDatasets = []string{"photos", "scans", "open", "mix", "blend"}

// address returns an address for a route's pattern that returns 200 to a caller with the right, a
// body, and the dataset whose data it returns.
func (m *matrix) address(row gateway.RouteRow, dataset string) (path, body, of string) {
	query := url.Values{}
	path = strings.NewReplacer("{dataset}", dataset, "{epoch}", "0", "{batch}", "0", "/page/{file}", "/page/app.js", "{file}", "index.json", "{plan}", "seed=3",
		"{snapshot:[0-9A-Fa-f]+}", cmp.Or(m.lost[dataset], m.lost["photos"]), "/debug/pprof/*", "/debug/pprof/heap").Replace(row.Pattern)
	switch {
	case strings.HasPrefix(row.Pattern, "/epoch/"):
		of = "photos"
	case strings.Contains(row.Pattern, "{dataset}"):
		of = dataset
	}
	switch {
	case strings.HasSuffix(path, "/sample"), strings.HasSuffix(path, "/occurrences"):
		query.Set("key", m.order[5])
		if strings.HasSuffix(path, "/occurrences") {
			query.Set("epochs", "0-1")
		}
		if of == "mix" || of == "blend" {
			query.Set("dataset", "photos")
		}
	case strings.Contains(path, "/samples"):
		query.Set("at", "3,1")
	case strings.HasSuffix(path, "/batches"):
		query.Set("count", "2")
	case strings.HasSuffix(path, "/profile"), strings.HasSuffix(path, "/trace"):
		query.Set("seconds", "0") // invalid, but not because of a missing right
	}
	switch {
	case strings.HasSuffix(row.Pattern, "/importance"):
		body = strings.ReplaceAll(m.lost["report"], "photos", of)
	case strings.HasSuffix(row.Pattern, "/snapshots"):
		body = strings.ReplaceAll(m.lost["freeze"], "photos", of)
	case strings.HasSuffix(row.Pattern, "/subsets"):
		body = `{"subset":"samples:0-3"}`
	case strings.HasSuffix(row.Pattern, "/schedules") && row.Method == "POST":
		body = `{"schedule":[[32,1]]}`
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, body, of
}

// prepare creates the content of some routes: a report and a snapshot.
func (m *matrix) prepare() {
	m.t.Helper()
	all, port := m.by("all"), m.gateway.Handler()
	must := func(a answer) answer {
		m.t.Helper()
		if a.StatusCode >= 300 {
			m.t.Fatalf("got status %d: %s", a.StatusCode, a.body)
		}
		return a
	}
	location := func(path string) string {
		return must(m.ask(port, all, "HEAD", path, "")).Header.Get("Content-Location")
	}
	losses := strings.TrimSuffix(strings.Repeat("1,", 16), ",")
	m.lost["report"] = fmt.Sprintf(`{"url":%q,"losses":[%s]}`, location("/v1/datasets/photos/epochs/0/batches/0"), losses)
	m.lost["freeze"] = fmt.Sprintf(`{"url":%q}`, location("/v1/datasets/photos/epochs/0"))
	for _, name := range []string{"photos", "scans", "open"} {
		path := "/v1/datasets/" + name + "/importance"
		must(m.ask(port, all, "POST", path, strings.ReplaceAll(m.lost["report"], "photos", name)))
		var frozen struct{ Snapshot string }
		if err := json.Unmarshal(must(m.ask(port, all, "POST", path+"/snapshots", strings.ReplaceAll(m.lost["freeze"], "photos", name))).body, &frozen); err != nil {
			m.t.Fatal(err)
		}
		m.lost[name] = frozen.Snapshot
	}
}

// TestEveryRouteNamesItsRight compares the routing tables of both ports with the documents.
func TestEveryRouteNamesItsRight(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	for _, admin := range []bool{false, true} {
		for _, row := range r.gateway.RouteTable(admin) {
			if got, want := row.Right.String(), needs(row.Method, row.Pattern); got != want {
				t.Errorf("%s %s: got right %q, want %q", row.Method, row.Pattern, got, want)
			}
		}
	}
}

// TestMatrix sends a request for every route, caller and dataset, with all header variants. The
// first round runs before any caller was served.
func TestMatrix(t *testing.T) {
	m := newMatrix(t, nil)
	m.prepare()
	asked := map[string]int{}
	for _, warm := range []bool{false, true} { // false: plans and caches are empty
		for _, c := range m.callers {
			for _, admin := range []bool{false, true} {
				port := m.gateway.Handler()
				if admin {
					port = m.gateway.Admin()
				}
				for _, row := range m.gateway.RouteTable(admin) {
					datasets := append(slices.Clone(allDatasets), "nosuch", "")
					if !strings.Contains(row.Pattern, "{dataset}") {
						datasets = datasets[:1]
					} else if strings.HasSuffix(row.Pattern, "{dataset}") {
						datasets = datasets[:len(datasets)-1] // without a name the pattern does not match
					}
					for _, d := range datasets {
						m.cell(port, c, row, d, warm, asked)
					}
				}
			}
		}
	}
	for _, outcome := range []string{served, challenge, forbidden, hidden} {
		if asked[outcome] < 100 {
			t.Errorf("%s: got %d requests, want at least 100", outcome, asked[outcome])
		}
	}
	t.Logf("requests by outcome: %v", asked)
	m.canary()
}

// ways returns the additional headers of each variant of a request. It returns few variants if
// caches are warm or credentials are invalid.
func (m *matrix) ways(c caller, row gateway.RouteRow, path string, few bool) [][]string {
	if row.Method == "POST" {
		return [][]string{nil}
	}
	if m.lost[path] == "" {
		m.lost[path] = `"` + m.ask(m.gateway.Handler(), m.by("all"), "HEAD", path, "").Header.Get("ETag")
	}
	same := "If-None-Match: " + m.lost[path][1:]
	if few || c.invalid {
		return [][]string{nil, {same}}
	}
	return [][]string{nil, {"Range: bytes=3-9"}, {same}, {"If-None-Match: *"}, {"If-Match: \"none\""}}
}

// cell requests one address in every variant.
func (m *matrix) cell(port http.Handler, c caller, row gateway.RouteRow, dataset string, few bool, asked map[string]int) {
	m.t.Helper()
	path, body, of := m.address(row, dataset)
	want := expected(c, row.Pattern, needs(row.Method, row.Pattern), of)
	methods := []string{row.Method}
	if row.Method == "GET" {
		methods = append(methods, "HEAD")
	}
	for _, method := range methods {
		for _, way := range m.ways(c, row, path, few) {
			a := m.ask(port, c, method, path, body, way...)
			name := fmt.Sprintf("%s %s as %s %v", method, path, c.name, way)
			asked[want]++
			m.check(name, a, want, of, way)
			if twin := twins[of]; twin != "" && (want == hidden || want == challenge && row.Pattern != "/epoch/{epoch}/batch/{batch}" && strings.Contains(row.Pattern, "{dataset}")) {
				path, body, _ := m.address(row, twin)
				m.same(name, of, a, twin, m.ask(port, c, method, path, body, way...))
			}
		}
	}
	if a := m.ask(port, c, "OPTIONS", path, ""); a.StatusCode != http.StatusNoContent && dataset != "" {
		m.t.Errorf("OPTIONS %s as %s: got status %d, want 204", path, c.name, a.StatusCode)
	}
	if row.Method == "GET" && !strings.Contains(row.Pattern, "/importance/") && !strings.HasSuffix(row.Pattern, "/schedules") {
		if a := m.ask(port, c, "POST", path, ""); a.StatusCode != http.StatusMethodNotAllowed {
			m.t.Errorf("POST %s as %s: got status %d, want 405", path, c.name, a.StatusCode)
		}
	}
}

// check compares a response with the expected outcome.
func (m *matrix) check(name string, a answer, want, of string, way []string) {
	m.t.Helper()
	if want == served {
		// Mixtures have no index and no losses. A range may be ignored.
		fine := a.StatusCode < 300 || a.StatusCode == http.StatusNotModified || a.StatusCode == http.StatusPreconditionFailed && len(way) > 0
		fine = fine || a.StatusCode == http.StatusBadRequest && strings.Contains(name, "seconds=0")
		fine = fine || a.StatusCode == http.StatusNotFound && sources[of] != nil && strings.Contains(name, "/importance")
		if !fine && (sources[of] == nil || slices.Contains([]int{401, 403, 404, 429, 500}, a.StatusCode)) {
			m.t.Errorf("%s: got status %d, want it served: %s", name, a.StatusCode, a.body)
		}
		if control := a.Header.Get("Cache-Control"); of != "" && of != "open" && strings.Contains(control, "public") {
			m.t.Errorf("%s: got Cache-Control %q of a dataset that is not open to everybody", name, control)
		}
		return
	}
	status := map[string]int{challenge: 401, forbidden: 403, hidden: 404}[want]
	if a.StatusCode != status {
		m.t.Errorf("%s: got status %d, want %d: %.300s", name, a.StatusCode, status, a.body)
		return
	}
	if (a.Header.Get("WWW-Authenticate") != "") != (status == 401) {
		m.t.Errorf("%s: got WWW-Authenticate %q with status %d", name, a.Header.Get("WWW-Authenticate"), status)
	}
	for header, values := range a.Header {
		switch header {
		case "X-Request-Id", "X-Content-Type-Options", "Www-Authenticate", "Content-Type", "Content-Length":
		case "Cache-Control":
			if values[0] != "no-store" {
				m.t.Errorf("%s: got Cache-Control %q, want no-store", name, values)
			}
		default:
			m.t.Errorf("%s: got %s %q with a refusal", name, header, values)
		}
	}
	for _, other := range allDatasets {
		if other != of && other != "mix" && other != "open" && strings.Contains(string(a.body), other) {
			m.t.Errorf("%s: got %q in a refusal: %s", name, other, a.body)
		}
	}
}

// same compares the refusal for an existing dataset with the refusal for one that does not exist.
func (m *matrix) same(name, of string, a answer, twin string, b answer) {
	m.t.Helper()
	plain := func(a answer, dataset string) string {
		return strings.ReplaceAll(fmt.Sprintf("%d %v %s", a.StatusCode, a.Header, a.body), dataset, "NAME")
	}
	if got, want := plain(a, of), plain(b, twin); got != want {
		m.t.Errorf("%s: what is there is told from what is not:\n%s\n%s", name, got, want)
	}
}
