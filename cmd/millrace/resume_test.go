package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// counted puts a proxy in front of a gateway. fetched returns the batches that have been requested
// since its last call.
func counted(t *testing.T, gateway string) (address string, fetched func() []string) {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var paths []string
	forward := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }} // it does not add headers that name the proxy
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, number, ok := strings.Cut(r.URL.Path, "/batch/"); ok && r.Method == http.MethodGet {
			mu.Lock()
			paths = append(paths, number)
			mu.Unlock()
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := slices.Sorted(slices.Values(paths))
		paths = nil
		return all
	}
}

// filesIn returns the contents of all files of a directory, including hidden ones.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// TestFetch_ResumesWithMissingBatches: complete batches are checked and not fetched again. Damaged
// and short batches, and those of another plan, are fetched.
func TestFetch_ResumesWithMissingBatches(t *testing.T) {
	url, fetched := counted(t, gatewayFor(t, shards(t)))
	dir := t.TempDir()
	fetch := func(more ...string) fetchReport {
		t.Helper()
		return read[fetchReport](t, append([]string{"fetch", url, "--output", dir}, more...)...)
	}
	if rep := fetch(); rep.Reused.Batches != 0 || rep.Batches != 7 || len(fetched()) != 7 {
		t.Fatalf("got %+v, want seven batches that are all fetched", rep)
	}
	want := filesIn(t, dir)
	if rep := fetch(); rep.Reused.Batches != 7 || rep.Reused.Samples != 50 || rep.Reused.Bytes != rep.Bytes || rep.Batches != 7 || rep.Samples != 50 || len(fetched()) != 0 {
		t.Errorf("the same again: got %+v, want nothing fetched", rep)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	flipped := []byte(want["batch-000004.tar"])
	flipped[len(flipped)/2] ^= 1
	for name, content := range map[string][]byte{
		"batch-000002.tar": []byte(want["batch-000002.tar"])[:700], "batch-000003.tar": nil, "batch-000004.tar": flipped,
		".batch-000001.tar.part-17": []byte("of a killed run"),
	} {
		if err := os.WriteFile(path(name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(path("batch-000006.tar")); err != nil {
		t.Fatal(err)
	}
	rep := fetch()
	if got := fetched(); rep.Reused.Batches != 3 || !slices.Equal(got, []string{"2", "3", "4", "6"}) || rep.Proved != "every sample came exactly once" {
		t.Errorf("got %+v and batches %v fetched, want 2, 3, 4 and 6", rep, got)
	}
	if got := filesIn(t, dir); !maps.Equal(got, want) {
		t.Errorf("got the files %q, want those of the first run", slices.Sorted(maps.Keys(got)))
	}
	if rep := fetch("--seed", "7"); rep.Reused.Batches != 0 || len(fetched()) != 7 {
		t.Errorf("another plan: got %+v, want all fetched", rep)
	}
	if rep := fetch("--no-manifest", "--from", "2", "--seed", "7"); rep.Reused.Batches != 5 || len(fetched()) != 0 {
		t.Errorf("a part: got %+v, want nothing fetched", rep)
	}
}

// TestFetch_ResumesRanksSeparately: a rank uses only its own files, and does not touch the
// unfinished files of other ranks.
func TestFetch_ResumesRanksSeparately(t *testing.T) {
	url, fetched := counted(t, gatewayFor(t, shards(t)))
	dir := t.TempDir()
	ok(t, "fetch", url, "--output", dir, "--world-size", "2", "--rank", "0")
	other := filepath.Join(dir, ".batch-000001.rank-1-of-2.tar.part-17")
	if err := os.WriteFile(other, []byte("of a run that goes on"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := len(fetched()); n != 7 {
		t.Errorf("got %d batches fetched, want 7", n)
	}
	if rep := read[fetchReport](t, "fetch", url, "--output", dir, "--world-size", "2", "--rank", "0"); rep.Reused.Batches != 7 {
		t.Errorf("got %+v, want all there", rep)
	}
	if b, err := os.ReadFile(other); err != nil || !bytes.Contains(b, []byte("goes on")) {
		t.Errorf("the other rank's file: got %v, want it left", err)
	}
	if rep := read[fetchReport](t, "fetch", url, "--output", dir, "--world-size", "2", "--all-ranks"); rep.Reused.Batches != 7 || rep.Batches != 14 || len(fetched()) != 7 {
		t.Errorf("all ranks: got %+v, want the other rank's fetched", rep)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("what a killed run of the rank left: it is still there")
	}
	if text := ok(t, "fetch", url, "--output", dir, "--world-size", "2", "--all-ranks").stdout; !strings.Contains(text, "14 batches were there already") {
		t.Errorf("got %q, want it to say what was there", text)
	}
}

// TestFetch_NamesFilesByFormat: batches of tables are files with the extension of their format. A
// second run finds them.
func TestFetch_NamesFilesByFormat(t *testing.T) {
	for ext, text := range map[string]string{"csv": "a,b\n1,2\n3,4\n", "tsv": "a\tb\n1\t2\n"} {
		dir, out := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "table."+ext), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, "index", dir)
		url := gatewayFor(t, dir)
		rep := read[fetchReport](t, "fetch", url, "--output", out, "--shuffle", "none")
		again := read[fetchReport](t, "fetch", url, "--output", out, "--shuffle", "none")
		if got := filesIn(t, out); got["batch-000000."+ext] != text || rep.Reused.Batches != 0 || again.Reused.Batches != 1 {
			t.Errorf("%s: got %q, then %+v and %+v", ext, got, rep, again)
		}
	}
}
