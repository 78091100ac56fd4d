package main

import (
	"encoding/json"
	"net"
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
