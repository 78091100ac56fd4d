package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAllUnknownFlagsAreNamedTogether(t *testing.T) {
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

func TestBenchOfADeadGatewayExitsWithFive(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gateway := "http://" + ln.Addr().String()
	ln.Close() // nobody listens there now
	o := millrace(t, nil, "bench", gateway)
	if o.code != exitStore {
		t.Errorf("got exit code %d, want %d", o.code, exitStore)
	}
	if !strings.Contains(o.stderr, "bench "+gateway+": no answer") {
		t.Errorf("got %q, want the gateway and that it gave no answer", o.stderr)
	}
}

func TestPackPrintsItsReportAndNamesTheCure(t *testing.T) {
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
	o := millrace(t, nil, "pack", dir, t.TempDir(), "--key", "path")
	if o.code != exitFailure {
		t.Errorf("got exit code %d, want %d", o.code, exitFailure)
	}
	for _, want := range []string{"f.c", "f.h", "different directories", `"group"`} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%s is not in %q", want, o.stderr)
		}
	}
}

// TestFaultsNameTheDatasetOnce looks at what is printed of a dataset that is the root of a directory.
func TestFaultsNameTheDatasetOnce(t *testing.T) {
	empty := t.TempDir()
	none := filepath.Join(empty, "none")
	for _, c := range []struct{ dir, want string }{
		{empty, "file://" + empty + `: no index here yet: stat ".millrace/current": not found: no such file or directory (run 'millrace index' on it first?)`},
		{none, "open file://" + none + ": open directory: not found: no such file or directory"},
	} {
		for _, command := range [][]string{{"verify"}, {"plan"}, {"gc"}, {"serve", "--check", "--dataset"}} {
			o := millrace(t, nil, append(command, c.dir)...)
			if o.code != exitNotFound || !strings.HasSuffix(o.stderr, c.want+"\n") || strings.Count(o.stderr, c.dir) != 1 {
				t.Errorf("%s: got exit code %d, %q, want %d and once %q", command[0], o.code, o.stderr, exitNotFound, c.want)
			}
		}
	}
	o := millrace(t, nil, "index", empty)
	if want := "millrace: index file://" + empty + ": no shards here: "; o.code != exitNotFound || !strings.HasPrefix(o.stderr, want) {
		t.Errorf("got exit code %d, %q, want %d, %q", o.code, o.stderr, exitNotFound, want)
	}
}

// TestAMissingBucketIsNotAMissingIndex has a store that answers as S3 does: only a list says that the bucket is missing.
func TestAMissingBucketIsNotAMissingIndex(t *testing.T) {
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
			o := millrace(t, nil, command, "s3://nobody/x", "--s3-endpoint", srv.URL, "--s3-path-style", "--s3-region", "eu")
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

// TestBenchOfAGatewayThatDies has a gateway that closes its listener and every connection after a few batches.
func TestBenchOfAGatewayThatDies(t *testing.T) {
	url := gatewayFor(t, shards(t))
	answers := make(chan struct{}, 3)
	var front *httptest.Server
	front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answers <- struct{}{}:
		default:
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
			front.Listener.Close()
			return
		}
		resp, err := http.Get(url + r.URL.RequestURI())
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		if _, err := io.Copy(w, resp.Body); err != nil {
			t.Error(err)
		}
	}))
	defer front.Close()
	o := millrace(t, nil, "bench", front.URL, "--connections", "1", "--duration", "300ms", "--json")
	var rep benchReport
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil {
		t.Fatal(err)
	}
	if o.code != exitStore || rep.Batches != 1 || rep.Errors != 1 || !strings.Contains(o.stderr, "1 of 2 batches failed, the first: ") {
		t.Errorf("got exit code %d, %+v, %q, want %d, one batch and one error", o.code, rep, o.stderr, exitStore)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 shards", 1: "1 shard", 2000: "2,000 shards"} {
		if got := count(n, "shard", "shards"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLinksOfAPlanCanBeOpened follows the address that plan prints.
func TestLinksOfAPlanCanBeOpened(t *testing.T) {
	url := gatewayFor(t, shards(t))
	opened := 0
	for line := range strings.Lines(ok(t, "plan", url).stdout) {
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
