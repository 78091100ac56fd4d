package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/words"
)

// TestServeCheck_PrintsJSONThatServeAccepts: the JSON of serve --check is a valid configuration
// file.
func TestServeCheck_PrintsJSONThatServeAccepts(t *testing.T) {
	first := ok(t, "serve", "--check", "--dataset", "files="+shards(t), "--cache-size", "64MiB", "--parallel", "3", "--json").stdout
	if !json.Valid([]byte(first)) {
		t.Errorf("got %q, want JSON", first)
	}
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte(first), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, "serve", "--check", "--config", file, "--json").stdout; got != first {
		t.Errorf("got\n%s\nwant\n%s", got, first)
	}
}

// stopper ends a command when it prints.
type stopper struct {
	bytes.Buffer
	cancel context.CancelFunc
}

func (s *stopper) Write(p []byte) (int, error) {
	s.cancel()
	return s.Buffer.Write(p)
}

func TestDemo_PrintsItsAddress(t *testing.T) {
	from := t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "f.txt"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := []string{"XDG_CACHE_HOME=" + t.TempDir(), "GOMEMLIMIT=off"}
	for _, form := range []string{"--json=false", "--json"} {
		ctx, cancel := context.WithCancel(t.Context())
		stdout, stderr := &stopper{cancel: cancel}, &bytes.Buffer{}
		if got := run(ctx, []string{"demo", from, form}, env, stdout, stderr); got != exitOK {
			t.Fatalf("%s: got exit code %d, want 0\n%s", form, got, stderr)
		}
		if again := form == "--json"; strings.Contains(stderr.String(), "using the shards") != again {
			t.Errorf("%s: got %s, want the shards reused: %v", form, stderr, again)
		}
		var where struct{ URL, Dataset string }
		if err := json.Unmarshal(stdout.Bytes(), &where); (err == nil) != (form == "--json") {
			t.Errorf("%s: got %v of %q", form, err, stdout)
		}
		if form == "--json" && (where.Dataset != "demo" || !strings.HasPrefix(where.URL, "http://127.0.0.1:")) {
			t.Errorf("got %+v, want the dataset demo and its address", where)
		}
		if text := stdout.String(); strings.Count(text, "/epoch/0/batch/") != strings.Count(text, "/epoch/0/batch/0") || strings.Count(text, "curl -") != strings.Count(text, "curl -fsS") {
			t.Errorf("got %s, want batches of a dataset of one batch, and curl -fsS", text)
		}
	}
}

func TestPrintable_QuotesControlCharacters(t *testing.T) {
	for name, want := range map[string]string{
		"a/b c.jpg": "a/b c.jpg", "\u65e5\u672c.png": "\u65e5\u672c.png", `a"b`: `a"b`,
		"a\nb": `"a\nb"`, "\x1b[2Jx": `"\x1b[2Jx"`, "a\tb": `"a\tb"`, "\xff": `"\xff"`,
	} {
		if got := words.Printable(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

// TestExplain_PrintsAllDigitsOfEpoch: an epoch may be any 64-bit number, and is printed exactly.
func TestExplain_PrintsAllDigitsOfEpoch(t *testing.T) {
	gateway := gatewayFor(t, shards(t))
	const epoch = "18446744073709551615"
	if got := ok(t, "explain", gateway, "--epoch", epoch, "--json").stdout; !strings.Contains(got, `"epoch": `+epoch+",") {
		t.Errorf("got %s, want epoch %s", got, epoch)
	}
	if got := ok(t, "explain", gateway, "--epoch", epoch).stdout; !strings.Contains(got, "18,446,744,073,709,551,615\n") {
		t.Errorf("got %s, want epoch %s", got, epoch)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestCommands_FailIfOutputCannotBeWritten(t *testing.T) {
	for _, form := range []string{"--json=false", "--json"} {
		var stderr bytes.Buffer
		if got := run(t.Context(), []string{"version", form}, nil, fullDisk{}, &stderr); got != exitFailure || !strings.Contains(stderr.String(), "no space") {
			t.Errorf("%s: got exit code %d and %q, want %d and the cause", form, got, &stderr, exitFailure)
		}
	}
}

func TestCommands_RejectOptionsWithoutEffect(t *testing.T) {
	for _, args := range [][]string{
		{"plan", "x", "--batch", "1"},
		{"serve", "--dataset", "a=/x", "MILLRACE_FIRST_BYTE_TIMEOUT=0s"},
		{"serve", "--dataset", shards(t), "--json"}, // --json is only for --check
		{"serve", "--dataset", "a=/x", "MILLRACE_BUDGET_WAIT=0s"},
		{"help", "nonsense"},
		{"completion", "nonsense"},
		{"completion", "bash", "stray"},
	} {
		if o := millrace(t, nil, args...); o.code != exitUsage || o.stdout != "" && !strings.HasPrefix(o.stdout, `{"error":`) {
			t.Errorf("%q: got exit code %d and %q, want %d\n%s", args, o.code, o.stdout, exitUsage, o.stderr)
		}
	}
}

func TestHelp_IsAlsoACommand(t *testing.T) {
	for _, command := range [][]string{{}, {"serve"}, {"completion", "bash"}} {
		got, want := ok(t, append([]string{"help"}, command...)...).stdout, ok(t, append(command, "--help")...).stdout
		if got != want || want == "" {
			t.Errorf("help %v: got\n%s\nwant\n%s", command, got, want)
		}
	}
}

// TestToken_Expires: with --expires, the line for the access file and the JSON have the end of the
// token.
func TestToken_Expires(t *testing.T) {
	line := regexp.MustCompile(`- \{name: trainer, sha256: [0-9a-f]{64}(?:, expires: (.*))?}`)
	found := line.FindStringSubmatch(ok(t, "token", "trainer", "--expires", "2d").stderr)
	if found == nil {
		t.Fatal("got no line for the access file")
	}
	end, err := time.Parse(time.RFC3339, found[1])
	if left := time.Until(end); err != nil || left < 47*time.Hour || left > 48*time.Hour {
		t.Errorf("--expires 2d: got %s (%v), want two days from now", found[1], err)
	}
	if found := line.FindStringSubmatch(ok(t, "token", "trainer").stderr); found == nil || found[1] != "" {
		t.Errorf("without --expires: got %q, want a token that does not expire", found)
	}
	if got := ok(t, "token", "trainer", "--json", "--expires", "2d").stdout; !strings.Contains(got, `"expires": "20`) {
		t.Errorf("--json: got %s, want the end", got)
	}
}
