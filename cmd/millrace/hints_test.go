package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/words"
)

func TestCommands_NameAllUnknownFlags(t *testing.T) {
	o := millrace(t, nil, "index", "./d", "--no-such", "--seed", "3", "--nor-this=4", "--", "--not-a-flag")
	if o.code != exitUsage {
		t.Errorf("got exit code %d, want %d", o.code, exitUsage)
	}
	for _, want := range []string{"--no-such\n", "--nor-this\n"} {
		if strings.Count(o.stderr, want) != 1 {
			t.Errorf("want %q once in\n%s", want, o.stderr)
		}
	}
	for _, known := range []string{"--seed", "--not-a-flag"} {
		if strings.Contains(o.stderr, known) {
			t.Errorf("%s is named in\n%s", known, o.stderr)
		}
	}
}

// TestServe_IgnoresKubernetesServiceVariables: if a Kubernetes service is called millrace, every
// pod of its namespace gets variables that begin with MILLRACE_. They must not prevent serve from
// starting.
func TestServe_IgnoresKubernetesServiceVariables(t *testing.T) {
	dataset := "d=" + shards(t)
	for kv, want := range map[string]int{
		"MILLRACE_SERVICE_HOST=10.0.0.7":                 exitOK,
		"MILLRACE_SERVICE_PORT=8080":                     exitOK,
		"MILLRACE_SERVICE_PORT_HTTP=8080":                exitOK,
		"MILLRACE_PORT=tcp://10.0.0.7:8080":              exitOK,
		"MILLRACE_PORT_8080_TCP=tcp://10.0.0.7:8080":     exitOK,
		"MILLRACE_PORT_8080_TCP_PORT=8080":               exitOK,
		"MILLRACE_GATEWAY_0_PORT_8080_TCP_ADDR=10.0.0.7": exitOK,
		"MILLRACE_GATEWAY_SERVICE_HOST=10.0.0.7":         exitOK,
		"MILLRACE_PORT=8080":                             exitUsage,
		"MILLRACE_SERVICE=10.0.0.7":                      exitUsage,
		"MILLRACE_PORT_TCP=8080":                         exitUsage,
	} {
		if o := millrace(t, []string{kv}, "serve", "--check", "--dataset", dataset); o.code != want {
			t.Errorf("%s: got exit code %d, want %d\n%s", kv, o.code, want, o.stderr)
		}
	}
}

func TestPack_PrintsReportAndAdvice(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"f.c", "f.h", "g.x.c"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var rep map[string]any
	out := ok(t, "pack", dir, t.TempDir(), "--json").stdout
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatal(err)
	}
	if rep["files"] != 3.0 || rep["samples"] != 2.0 || rep["multi_member_samples"] != 1.0 {
		t.Errorf("got %v, want 3 files, 2 samples, 1 of them with two members", rep)
	}
	if x, _ := rep["index"].(map[string]any); x["samples"] != 2.0 || x["read_bytes"] == nil || x["reused_shards"] != 0.0 {
		t.Errorf("got index %v, want 2 samples, read_bytes and reused_shards", x)
	}
	if o := millrace(t, nil, "pack", "s3://bucket/photos", t.TempDir()); o.code != exitUsage || !strings.Contains(o.stderr, "must be a path on this machine") {
		t.Errorf("a bucket: got exit code %d, %s", o.code, o.stderr)
	}
	o := millrace(t, nil, "pack", dir, t.TempDir(), "--sample-key", "path")
	if o.code != exitFailure {
		t.Errorf("got exit code %d, want %d", o.code, exitFailure)
	}
	for _, want := range []string{"f.c", "f.h", "different directories", "--sample-key group"} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%s is not in %q", want, o.stderr)
		}
	}
}

// TestErrors_NameDatasetOnce checks the errors about a dataset that fills a directory.
func TestErrors_NameDatasetOnce(t *testing.T) {
	empty := t.TempDir()
	none := filepath.Join(empty, "none")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, want string }{
		{empty, "file://" + empty + `: no index here yet: run 'millrace index file://` + empty + "'"},
		{none, "open file://" + none + ": no such directory"},
		{file, "open file://" + file + ": this is a file: use the directory that contains it"},
	} {
		for _, command := range [][]string{{"verify"}, {"plan"}, {"gc"}, {"serve", "--check", "--dataset"}} {
			o := millrace(t, nil, append(command, c.dir)...)
			if o.code != exitNotFound || !strings.HasSuffix(o.stderr, c.want+"\n") || strings.Count(o.stderr, c.dir) != strings.Count(c.want, c.dir) {
				t.Errorf("%s: got exit code %d, %q, want %d and %q", command[0], o.code, o.stderr, exitNotFound, c.want)
			}
		}
	}
	if o, want := millrace(t, nil, "pack", none, empty), "millrace: pack "+none+": not found\n"; o.code != exitNotFound || o.stderr != want {
		t.Errorf("got exit code %d, %q, want %d, %q", o.code, o.stderr, exitNotFound, want)
	}
	o := millrace(t, nil, "index", empty)
	if want := "millrace: index file://" + empty + ": no shards found: "; o.code != exitNotFound || !strings.HasPrefix(o.stderr, want) {
		t.Errorf("got exit code %d, %q, want %d, %q", o.code, o.stderr, exitNotFound, want)
	}
}

// TestErrors_DistinguishMissingBucketFromMissingIndex uses a store that responds like S3: only a
// list request shows that the bucket is missing.
func TestErrors_DistinguishMissingBucketFromMissingIndex(t *testing.T) {
	for _, exists := range []bool{false, true} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodGet:
				w.WriteHeader(http.StatusNotFound)
			case exists:
				fmt.Fprint(w, `<ListBucketResult><Name>nobody</Name><KeyCount>1</KeyCount><Contents><Key>x/a.tar</Key><ETag>"1"</ETag><Size>1</Size></Contents></ListBucketResult>`)
			default:
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, "<Error><Code>NoSuchBucket</Code></Error>")
			}
		}))
		defer srv.Close()
		t.Setenv("AWS_ACCESS_KEY_ID", "id")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
		for _, command := range []string{"verify", "plan", "gc"} {
			o := millrace(t, nil, command, "s3://nobody/x?region=eu&endpoint="+srv.URL)
			if o.code != exitNotFound {
				t.Errorf("%s: got exit code %d, want %d", command, o.code, exitNotFound)
			}
			if got := strings.Contains(o.stderr, "bucket nobody: not found"); got == exists {
				t.Errorf("%s: got %q, want it to say that the bucket is missing: %v", command, o.stderr, !exists)
			}
			if got := strings.Contains(o.stderr, "millrace index"); got != exists {
				t.Errorf("%s: got %q, want it to suggest index: %v", command, o.stderr, exists)
			}
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 shards", 1: "1 shard", 2000: "2,000 shards"} {
		if got := words.Count(n, "shard", "shards"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestExplain_LinksCanBeOpened follows the links that explain prints.
func TestExplain_LinksCanBeOpened(t *testing.T) {
	url := gatewayFor(t, shards(t))
	opened := 0
	for line := range strings.Lines(ok(t, "explain", url).stdout) {
		if strings.ContainsAny(line, "{}[]") {
			t.Errorf("got %q, want no JSON", line)
		}
		name, link, found := strings.Cut(strings.TrimSpace(line), "http://")
		if !found {
			continue
		}
		resp, err := http.Get("http://" + link)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if opened++; resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", name, resp.StatusCode)
		}
	}
	if opened < 2 {
		t.Errorf("got %d links, want those of the plan and of a batch", opened)
	}
}
