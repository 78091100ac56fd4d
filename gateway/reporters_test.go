package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/auth"
)

// TestReportersDoNotMix: reports of one caller neither block nor change the reports of another one.
// An untrusted caller's loss of 1e308 appears in no other caller's snapshot.
func TestReportersDoNotMix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yaml")
	tokens, text := map[string]string{}, "tokens:\n"
	for _, name := range []string{"trainer", "stranger"} {
		token, digest := auth.NewToken()
		tokens[name] = token
		text += fmt.Sprintf("  - {name: %s, sha256: %q}\n", name, digest)
	}
	text += "grants:\n  - {who: [\"token:trainer\", \"token:stranger\"], datasets: [\"*\"], rights: [read, report]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	guard, err := auth.Open(auth.Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 20, 800, func(c *gateway.Config) { c.Access = guard })
	as := func(who, path, body string) answer {
		t.Helper()
		a, err := r.try("POST", path, strings.NewReader(body), "Authorization: Bearer "+tokens[who], "Content-Type: application/json")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	url := `"url":"/v1/datasets/photos/epochs/0/batches/0?batch_size=4&generation=` + r.index.Generation() + `"`
	report := func(who, losses string) {
		t.Helper()
		if a := as(who, importancePath, `{`+url+`,"losses":[`+losses+`]}`); a.StatusCode != http.StatusOK {
			t.Fatalf("report of %s: got %d %s, want 200", who, a.StatusCode, a.body)
		}
	}
	report("stranger", "1e308,1,1,1")
	report("trainer", "1,2,3,4")
	report("trainer", "1,2,3,4")
	checkProblem(t, as("trainer", importancePath, `{`+url+`,"losses":[1,2,3,5]}`), http.StatusConflict, "conflict", false)
	names := map[string]string{}
	for who := range tokens {
		a := as(who, importancePath+"/snapshots", `{`+url+`}`)
		var s snapshotJSON
		if err := json.Unmarshal(a.body, &s); err != nil || a.StatusCode != http.StatusCreated || s.Reported != 4 {
			t.Fatalf("freeze of %s: got %d %s, %v", who, a.StatusCode, a.body, err)
		}
		if strings.Contains(string(a.body), "stranger") || strings.Contains(string(a.body), "trainer") {
			t.Errorf("got %s, want no caller's name in it", a.body)
		}
		names[s.Snapshot] = who
	}
	if len(names) != 2 {
		t.Errorf("got snapshots %v, want one for each", names)
	}
}

// TestInventedEpochsAreBounded: the number of epochs and batches that a job can start is bounded.
// Invented epochs do not block another job, which has another seed.
func TestInventedEpochsAreBounded(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	before := len(r.store.Keys())
	status := map[int]int{}
	report := func(epoch, seed uint64) answer {
		return r.post(importancePath, fmt.Sprintf(`{"url":"/v1/datasets/photos/epochs/%d/batches/0?batch_size=4&seed=%d&generation=%s","losses":[1,2,3,4]}`, epoch, seed, r.index.Generation()))
	}
	for i := range uint64(200) {
		a := report(1<<63+i, 1)
		status[a.StatusCode]++
		if a.StatusCode == http.StatusConflict {
			if p := checkProblem(t, a, http.StatusConflict, "too_many_epochs", false); !strings.Contains(p.Detail, "freeze") {
				t.Errorf("got %q, want the cure", p.Detail)
			}
		}
	}
	for epoch := range uint64(3) {
		if a := report(epoch, 2); a.StatusCode != http.StatusOK {
			t.Errorf("epoch %d of another job: got %d %s, want 200", epoch, a.StatusCode, a.body)
		}
	}
	if got := len(r.store.Keys()) - before; got > 2*(64+3) || status[http.StatusOK] != 64 {
		t.Errorf("got %d objects and statuses %v, want 64 reports taken", got, status)
	}
	many := strings.Repeat(`{"url":"/v1/datasets/photos/epochs/0/batches/0","losses":[1]},`, 1025)
	p := checkProblem(t, r.post(importancePath, `{"batches":[`+strings.TrimSuffix(many, ",")+`]}`), http.StatusBadRequest, "invalid_argument", false)
	if !strings.Contains(p.Detail, "1025") {
		t.Errorf("got %q, want the number of batches", p.Detail)
	}
}
