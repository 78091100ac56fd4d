package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/client/ledger"
	"github.com/millrace-data/millrace/cmd/internal/audit"
	"github.com/millrace-data/millrace/cmd/internal/occurrences"
)

// writeLedgers writes the ledgers of two ranks that read two epochs, and returns the names of the
// files. change may change the part of a rank.
func writeLedgers(t *testing.T, gateway, url string, samples uint64, change func(*ledger.Part)) (files []string) {
	t.Helper()
	u, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	plans := []ledger.Plan{{Digest: strings.Repeat("b", 32)}}
	if gateway != "" {
		var epoch struct {
			Plans []ledger.Plan `json:"plan_digests"` // of position 0
		}
		resp, err := http.Get(gateway + url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(&epoch); err != nil {
			t.Fatal(err)
		}
		plans = epoch.Plans
	}
	for rank := range uint64(2) {
		p := ledger.Part{
			Previous: []string{}, Generation: ledger.Brief(u.URL.Query().Get("generation")), Plans: plans,
			URL: url, Rank: rank, Ranks: 2, Positions: samples, Read: []ledger.Range{{0, 0, samples}, {1, 0, samples}},
		}
		change(&p)
		line, err := p.Line()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, filepath.Join(t.TempDir(), "ledger.jsonl"))
		if err := os.WriteFile(files[rank], line, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// locationOf returns the canonical URL of the epoch of a batch, without rank and world size.
func locationOf(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Head(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	found := resp.Header.Get("Content-Location")
	if found == "" {
		t.Fatalf("%s: got status %d and no Content-Location", url, resp.StatusCode)
	}
	found = strings.NewReplacer("/batches/0?", "?", "rank=0&", "", "&world_size=1", "").Replace(found)
	return found
}

func TestAudit_ListsReadingsOfASample(t *testing.T) {
	dir := shards(t)
	ok(t, "index", dir)
	samples := read[client.Dataset](t, "info", dir).Samples
	gateway := gatewayFor(t, dir)
	url := locationOf(t, gateway+"/epoch/0/batch/0?batch_size=16&seed=4")
	want := read[occurrences.Answer](t, "occurrences", url+"&world_size=2", "--offline", dir, "--key", "f007", "--epochs", "0-1").Occurrences
	files := writeLedgers(t, gateway, url, samples, func(p *ledger.Part) {
		if o := want[1]; p.Rank == *o.Rank {
			p.Filtered = []ledger.Range{{o.Epoch, o.Position, o.Position + 1}}
		}
	})
	got := read[audit.Answer](t, append([]string{"audit", "--key", "f007", "--offline", dir}, files...)...)
	if len(want) != 2 || len(got.Readings) != 2 || got.Positions != 2*samples || got.Filtered != 1 {
		t.Fatalf("got %+v, want %d positions and the readings %+v", got, 2*samples, want)
	}
	for i, r := range got.Readings {
		note := []string{"", "filtered"}[i]
		if r.Epoch != want[i].Epoch || r.Position != want[i].Position || *r.Rank != *want[i].Rank || r.Note != note {
			t.Errorf("reading %d: got %+v, want %+v and %q", i, r, want[i], note)
		}
	}
	var text bytes.Buffer
	got.Print(&text)
	if !strings.Contains(text.String(), "complete: 0:0 to 2:0 (epoch:position) in 1 attempt of 2 parts: ") {
		t.Errorf("got %s", text.String())
	}
	changed := writeLedgers(t, gateway, url, samples, func(p *ledger.Part) { p.URL = strings.Replace(p.URL, "seed=4", "seed=5", 1) })
	ok(t, append([]string{"audit"}, changed...)...)
	o := millrace(t, nil, append([]string{"audit", "--key", "f007", "--offline", dir}, changed...)...)
	if want := "attempt 0: the url of the ledgers is of another plan than their plans"; o.code != exitCorrupt || !strings.Contains(o.stderr, want) || o.stdout != "" {
		t.Errorf("another seed: got exit code %d, %s and %s, want %d and %q", o.code, o.stdout, o.stderr, exitCorrupt, want)
	}
}

// TestAudit_ListsSubstitutes: a quarantined sample was not read, another one was read twice.
func TestAudit_ListsSubstitutes(t *testing.T) {
	dir := shards(t)
	ok(t, "index", dir)
	samples := read[client.Dataset](t, "info", dir).Samples
	gateway := gatewayFor(t, dir)
	number := read[occurrences.Answer](t, "occurrences", locationOf(t, gateway+"/epoch/0/batch/0?shuffle=none"), "--offline", dir, "--key", "f007", "--epochs", "0").Occurrences[0].Position
	url := locationOf(t, gateway+"/epoch/0/batch/0?batch_size=16&quarantine=samples:"+strconv.FormatUint(number, 10))
	files := writeLedgers(t, gateway, url, samples, func(*ledger.Part) {})
	got := read[audit.Answer](t, append([]string{"audit", "--key", "f007", "--offline", dir}, files...)...)
	if len(got.Readings) != 2 || got.Readings[0].Note != "quarantined: a substitute was read" {
		t.Errorf("got %+v, want a substitute in both epochs", got.Readings)
	}
}

func TestAudit_FailsIfPositionsAreMissing(t *testing.T) {
	files := writeLedgers(t, "", "/v1/datasets/photos/epochs/0?generation="+strings.Repeat("a", 64), 100, func(p *ledger.Part) {
		if p.Rank == 1 {
			p.Read = []ledger.Range{{0, 0, 100}, {0, 90, 92}, {1, 0, 96}}
		}
		p.Start[1] = 3
		p.Read[0][1] = 3
	})
	o := millrace(t, nil, append([]string{"audit"}, files...)...)
	for _, want := range []string{
		"attempt 0: 1:96 to 2:0 not read by ranks [1]\n",
		"attempt 0: 0:90 to 0:92 read more than once by ranks [1]\n",
		"the ledgers begin at 0:3, not at 0:0: they have nothing that the run read before\n0:3 to 2:0 (ep",
		"0 filtered, 0 failed, 0 replaced\n",
	} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("got %s, want %q", o.stdout, want)
		}
	}
	if want := "the audit of the ledgers found 1 gap, 1 repeated range\n"; o.code != exitCorrupt || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d and %s, want %d and %q", o.code, o.stderr, exitCorrupt, want)
	}
	if err := os.WriteFile(files[0], []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := millrace(t, nil, "audit", files[0]); o.code != exitCorrupt || !strings.Contains(o.stderr, "line 1: the ledger is truncated") {
		t.Errorf("got exit code %d and %s, want %d", o.code, o.stderr, exitCorrupt)
	}
	for want, args := range map[string][]string{
		"--key and --offline require each other": {files[0], "--key", "k"},
		"expected LEDGER, got no argument":       {},
	} {
		if o := millrace(t, nil, append([]string{"audit"}, args...)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: got exit code %d and %s, want 2 and %q", args, o.code, o.stderr, want)
		}
	}
}

// TestAudit_ListsReadingsOfAMixture compares the readings with the manifests of a gateway.
func TestAudit_ListsReadingsOfAMixture(t *testing.T) {
	dir := shards(t)
	ok(t, "index", dir)
	gateway := gatewayFor(t, dir)
	number := read[occurrences.Answer](t, "occurrences", locationOf(t, gateway+"/epoch/0/batch/0?shuffle=none"), "--offline", dir, "--key", "f007", "--epochs", "0").Occurrences[0].Position
	mixture := "mix:files(subset=samples:0-19):3,files(subset=samples:20-49):1,samples=60"
	at := gateway + "/v1/datasets/" + mixture + "/epochs/"
	first := locationOf(t, at+"0/batches/0?batch_size=8&seed=4")
	files := writeLedgers(t, gateway, first, 60, func(*ledger.Part) {})
	got := read[audit.Answer](t, append([]string{"audit", "--key", "f007", "--offline", "files=" + dir}, files...)...)
	var want []ledger.Place
	for epoch := range uint64(2) {
		for batch := range 8 {
			var manifest struct{ Samples []client.Sample }
			resp, err := http.Get(fmt.Sprintf("%s%d/batches/%d/manifest?batch_size=8&seed=4", at, epoch, batch))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.NewDecoder(resp.Body).Decode(&manifest); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			for _, s := range manifest.Samples {
				if s.Key == "f007" {
					want = append(want, ledger.Place{epoch, s.Position})
				}
			}
		}
	}
	if len(want) < 4 || len(got.Readings) != len(want) {
		t.Fatalf("got %+v, want %v", got.Readings, want)
	}
	for i, r := range got.Readings {
		if (ledger.Place{r.Epoch, r.Position}) != want[i] {
			t.Errorf("reading %d: got %+v, want %v", i, r, want[i])
		}
	}
	bad := locationOf(t, gateway+"/v1/datasets/"+url.PathEscape(strings.Replace(mixture, "0-19", fmt.Sprintf("0-19&quarantine=samples:%d", number), 1))+"/epochs/0/batches/0?batch_size=8&seed=4")
	files = writeLedgers(t, gateway, bad, 60, func(*ledger.Part) {})
	replaced := read[audit.Answer](t, append([]string{"audit", "--key", "f007", "--offline", "files=" + dir}, files...)...)
	if len(replaced.Readings) != len(want) || replaced.Readings[0].Note != "quarantined: a substitute was read" {
		t.Errorf("got %+v, want substitutes at %v", replaced.Readings, want)
	}
	o := millrace(t, nil, append([]string{"audit", "--key", "f007", "--offline", "photos=" + dir}, files...)...)
	if want := "name the dataset of each source, with --offline files=DATASET"; o.code == 0 || !strings.Contains(o.stderr, want) {
		t.Errorf("got exit code %d and %s, want %q", o.code, o.stderr, want)
	}
}
