package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/audit"
)

// revoke removes a caller's tokens from the access file.
func (m *matrix) revoke(name string) {
	m.t.Helper()
	var kept []string
	for line := range strings.Lines(m.text) {
		if !strings.Contains(line, "name: "+name+",") {
			kept = append(kept, strings.ReplaceAll(line, `"token:`+name+`"`, `"token:cut"`))
		}
	}
	m.put(m.t, strings.Join(kept, ""))
	if err := m.guard.Reload(); err != nil {
		m.t.Fatal(err)
	}
}

// audited adds an audit log, and returns a function that returns its lines.
func audited(t *testing.T, cfg *gateway.Config) func() string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	var err error
	if cfg.Audit, err = audit.Open(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cfg.Audit.Close() })
	return func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// TestRevokedDuringALongAnswer revokes a token while the third batch of eight is read. The gateway
// sends no later batch and closes the connection, and the audit log contains the refusal.
func TestRevokedDuringALongAnswer(t *testing.T) {
	var lines func() string
	m := newMatrix(t, func(cfg *gateway.Config) { lines = audited(t, cfg) })
	reader := m.by("reader")
	get := func() (status int, body []byte, err error) {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", m.server.URL+"/v1/datasets/photos/epochs/0/batches?count=8&batch_size=4", nil)
		req.Header["Authorization"] = reader.headers
		res, err := m.server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err = io.ReadAll(res.Body)
		return res.StatusCode, body, err
	}
	var reads, last atomic.Int64
	m.source.before = func(context.Context) error {
		if reads.Add(1) == last.Load() {
			m.revoke("reader")
		}
		return nil
	}
	_, whole, err := get()
	if err != nil {
		t.Fatal(err)
	}
	last.Store(3)
	reads.Store(0)
	status, part, err := get()
	if status != http.StatusOK || !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(whole, part) || reads.Load() != 3 {
		t.Errorf("got status %d, %d of %d bytes, %d reads and %v, want 200, three batches and an early end", status, len(part), len(whole), reads.Load(), err)
	}
	if status, _, err := get(); status != http.StatusUnauthorized || err != nil { // on a kept connection or a new one
		t.Errorf("got status %d and %v afterwards, want 401", status, err)
	}
	if got := lines(); !strings.Contains(got, `"event":"refusal","principal":"token:reader"`) || strings.Count(got, "\n") != 1 {
		t.Errorf("got audit log %s, want one refusal of token:reader", got)
	}
}

// TestRevokedOnAKeptConnection: an open connection does not replace credentials.
func TestRevokedOnAKeptConnection(t *testing.T) {
	m := newMatrix(t, nil)
	token := m.by("reader").headers[0]
	if a := m.do("GET", "/epoch/0/batch/0", "Authorization: "+token); a.StatusCode != http.StatusOK {
		t.Fatalf("got status %d, want 200", a.StatusCode)
	}
	m.revoke("reader")
	if a := m.do("GET", "/epoch/0/batch/0", "Authorization: "+token); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("got status %d once the token is gone, want 401", a.StatusCode)
	}
}

// TestReportsNameTheirDatasetAlone: an address in a body must not refer to another dataset, whether
// that dataset exists or not.
func TestReportsNameTheirDatasetAlone(t *testing.T) {
	m := newMatrix(t, nil)
	m.prepare()
	var before string
	for _, name := range []string{"scans", "scanz"} {
		body := strings.ReplaceAll(m.lost["report"], "photos", name)
		a := m.ask(m.gateway.Handler(), m.by("reporter"), "POST", "/v1/datasets/photos/importance", body)
		got := fmt.Sprintf("%d %v %s", a.StatusCode, a.Header, a.body)
		if a.StatusCode != http.StatusBadRequest || before != "" && got != before {
			t.Errorf("a url of %s: got %s, want 400 and the same for each", name, got)
		}
		before = got
	}
	a := m.ask(m.gateway.Handler(), m.by("all"), "POST", "/v1/datasets/scans/importance", strings.ReplaceAll(m.lost["report"], "/v1/datasets/photos/epochs/0/batches/0", "/epoch/0/batch/0"))
	if a.StatusCode != http.StatusBadRequest {
		t.Errorf("the short path, which means photos, in a report of scans: got status %d, want 400", a.StatusCode)
	}
	for _, path := range []string{"/v1/datasets/photos/importance/" + m.lost["scans"], "/epoch/0/batch/0?importance=" + m.lost["open"]} {
		m.lost["scans"], m.lost["open"] = strings.Repeat("0", 64), strings.Repeat("0", 64)
		if a := m.ask(m.gateway.Handler(), m.by("reader"), "GET", path, ""); a.StatusCode == http.StatusOK && !strings.Contains(path, m.lost["photos"]) {
			t.Errorf("%s: got weights of another dataset", path)
		}
	}
}

// TestListsLeaveOut: a list has exactly the datasets that its caller may read.
func TestListsLeaveOut(t *testing.T) {
	m := newMatrix(t, nil)
	for _, c := range m.callers {
		a := m.ask(m.gateway.Handler(), c, "GET", "/v1/datasets", "")
		for _, name := range allDatasets {
			want := !c.invalid && c.may("read", name)
			if got := strings.Contains(string(a.body), `"name":"`+name+`","default"`); got != want {
				t.Errorf("the list of %s: got %s in it %v, want %v", c.name, name, got, want)
			}
		}
	}
}
