package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// canary searches for secrets in every output for operators and for callers without rights: the log
// at every level, metrics and statistics. A log line may contain the name of a dataset whose
// request was served.
func (m *matrix) canary() {
	m.t.Helper()
	boss := m.by("boss")
	texts := map[string]string{"log": m.log.String()}
	for _, path := range []string{"/metrics", "/v1/stats", "/v1/cluster", "/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/goroutine?debug=2", "/debug/pprof/cmdline"} {
		texts[path] = string(m.ask(m.gateway.Admin(), boss, "GET", path, "").body)
	}
	for name, text := range texts {
		for _, secret := range append(m.secrets, m.order[5], url.QueryEscape(m.order[5])) {
			if strings.Contains(text, secret) {
				m.t.Errorf("%s holds the secret %.12s...", name, secret)
			}
		}
	}
	for line := range strings.Lines(texts["log"]) {
		var entry struct {
			Status  int
			Dataset string // set only if the caller has the right
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			m.t.Fatalf("%s: %v", line, err)
		}
		if entry.Status == http.StatusUnauthorized || entry.Status == http.StatusNotFound && entry.Dataset == "" {
			for _, name := range []string{"photos", "scans", "blend"} {
				if strings.Contains(line, name) {
					m.t.Fatalf("a refusal names a dataset in the log: %s", line)
				}
			}
		}
	}
}

// TestSecretsInTheWrongPlace puts tokens and JWTs wherever a client may put them by mistake, and
// checks that none appears in the log.
func TestSecretsInTheWrongPlace(t *testing.T) {
	m := newMatrix(t, nil)
	for _, secret := range m.secrets {
		for _, c := range []caller{m.by("nobody"), m.by("nothing"), m.by("all")} {
			escaped := url.QueryEscape(secret)
			for _, path := range []string{
				"/epoch/0/batch/0?token=" + escaped, "/epoch/0/batch/0?" + escaped + "=1", "/epoch/0/batch/0?seed=" + escaped, "/epoch/0/batch/" + escaped,
				"/v1/datasets/" + escaped, "/v1/datasets/" + escaped + "/index", "/v1/datasets/photos/sample?key=" + escaped, "/" + escaped,
				"/v1/datasets/photos/epochs/0?subset=" + escaped, "/v1/datasets/photos/epochs/0?fields=" + escaped, "/v1/datasets/photos/epochs/0?importance=" + escaped,
				"/v1/datasets/photos/epochs/0?format=" + escaped, "/v1/datasets/photos/epochs/0/mds/" + escaped + "/index.json",
			} {
				m.ask(m.gateway.Handler(), c, "GET", path, "")
			}
			for _, header := range []string{
				"User-Agent", "X-Request-Id", "Millrace-Deadline-Ms", "Accept", "If-Match", "If-None-Match", "Range", "If-Range", "Origin", "Referer", "Content-Type",
				"Forwarded", "X-Forwarded-For", "Sec-Fetch-Site", "traceparent", "Host", "Cookie",
			} {
				m.ask(m.gateway.Handler(), c, "GET", "/epoch/0/batch/0", "", header+": "+secret)
				m.ask(m.gateway.Handler(), c, "POST", "/v1/datasets/photos/importance", "{}", header+": "+secret)
			}
			m.ask(m.gateway.Handler(), c, "POST", "/v1/datasets/photos/importance", `{"`+secret+`":1}`)
			m.ask(m.gateway.Handler(), c, "POST", "/v1/datasets/photos/importance", `{"url":"`+secret+`","losses":[1]}`)
		}
	}
	m.canary()
}
