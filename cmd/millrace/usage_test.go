package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/objstore"
)

func TestTypingErrors_GetSuggestion(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serv"}, "millrace: unknown command \"serv\": did you mean serve?\n"},
		{[]string{"help", "fecth"}, "unknown command \"fecth\": did you mean fetch?\n"},
		{[]string{"entirely"}, "unknown command \"entirely\"\n"},
		{[]string{"serve", "--datset", "x"}, "millrace serve: unknown flag: --datset: did you mean --dataset?\n"},
		{[]string{"serve", "--cache", "x"}, "unknown flag: --cache: did you mean --cache-size?\n"},
		{[]string{"fetch", "--quite"}, "unknown flag: --quite: did you mean --quiet?\n"},
		{[]string{"serve", "--port", "8080"}, "unknown flag: --port: did you mean --listen?\n"},
		{[]string{"fetch", "--split", "locality"}, "unknown flag: --split: did you mean --share?\n"},
		{[]string{"index", "--s3-region", "eu"}, "unknown flag: --s3-region: set it in the address of the dataset, as in 's3://bucket/prefix?region=NAME'\n"},
		{[]string{"fetch", "--x"}, "unknown flag: --x\n"},
		{[]string{"subset", "a"}, "millrace subset: either --into or --keys is required\n"},
		{[]string{"datasets", "http://gw:1/photos"}, "millrace datasets: http://gw:1/photos names a dataset: use http://gw:1, or run 'millrace info'\n"},
		{[]string{"fetch", "-x"}, "unknown shorthand flag: 'x' in -x\n"},
	} {
		if o := millrace(t, nil, c.args...); o.code != exitUsage || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%v: got exit code %d and %s, want 2 and %s", c.args, o.code, o.stderr, c.want)
		}
	}
}

// TestFlags_RejectExplicitZero: an explicit 0 is an error where 0 has no meaning. It does not
// select the default.
func TestFlags_RejectExplicitZero(t *testing.T) {
	for _, c := range []struct{ args, flags string }{
		{"fetch 127.0.0.1:1", "--batch-size --window --world-size --until"},
		{"fetch 127.0.0.1:1 --share locality", "--homes"},
		{"warm 127.0.0.1:1", "--batch-size --window"},
		{"explain 127.0.0.1:1", "--batch-size --window"},
		{"plan " + t.TempDir(), "--batch-size --window --world-size --gateways"},
		{"plan " + t.TempDir() + " --world-size 8", "--homes"},
		{"simulate " + t.TempDir(), "--batch-size --window"},
		{"index " + t.TempDir(), "--batch-size --window --sequence-length"},
	} {
		for flag := range strings.FieldsSeq(c.flags) {
			o := millrace(t, nil, append(strings.Fields(c.args), flag, "0")...)
			if o.code != exitUsage || !strings.Contains(o.stderr, flag+" \"0\": must be ") && !strings.Contains(o.stderr, flag+" 0: must be ") {
				t.Errorf("%s %s 0: got exit code %d and %s, want 2", c.args, flag, o.code, o.stderr)
			}
		}
	}
}

func TestArguments_MissingAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"pack", "a"}, "millrace pack: expected SOURCE and DESTINATION, got 1 argument\nRun 'millrace pack --help' for its flags.\n"},
		{[]string{"fetch"}, "millrace fetch: expected GATEWAY[/NAME], got no argument\nRun 'millrace fetch --help' for its flags.\n"},
		{[]string{"index"}, "millrace index: expected DATASET, got no argument\nRun 'millrace index --help' for its flags.\n"},
		{[]string{"index", "a", "s3://k:secret@b/x"}, "millrace index: expected DATASET, got 2 arguments: \"s3://***@b/x\" is one too many\nRun 'millrace index --help' for its flags.\n"},
		{[]string{"version", "x"}, "millrace version: expected no argument, got 1 argument: \"x\" is one too many\nRun 'millrace version --help' for its flags.\n"},
	} {
		if o := millrace(t, nil, c.args...); o.code != exitUsage || o.stderr != c.want {
			t.Errorf("%v: got exit code %d and %s, want 2 and %s", c.args, o.code, o.stderr, c.want)
		}
	}
}

func TestReport_PrintsFailuresAsJSON(t *testing.T) {
	empty, mixed, splits, named, columns := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	file, err := os.ReadFile("../../chunkindex/codec/rowgroup/testdata/nested.parquet")
	if err != nil {
		t.Fatal(err)
	}
	damaged := write(t, map[string]string{"a.txt": "x"})
	for path, text := range map[string]string{
		mixed + "/a.jpg": "a", mixed + "/b.csv": "x,y\n1,2\n", splits + "/train-0.jsonl": "{}\n", splits + "/val-0.jsonl": "{}\n", named + "/a.txt": "x",
		columns + "/a.parquet": string(file), damaged + "/.millrace/current": "{",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	numbers := write(t, map[string]string{"train.bin": "0123456789"})
	array := write(t, map[string]string{"x.json": "[1, 2]\n"})
	ok(t, "index", named, "--name", "one")
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
	}))
	defer bucket.Close()
	for _, c := range []struct {
		args string
		exit int
		want string // expected in the JSON object
	}{
		{"verify " + empty, exitNotFound, `"code":"not_found","exit":4,"message":"open dataset file://` + empty + `: no index here yet","cure":"run 'millrace index file://` + empty + `'"}`},
		{"info " + empty + "/none", exitNotFound, `"code":"not_found"`},
		{"info " + named, exitNotFound, `"indexes":["#one"]`},
		{"info " + damaged, exitCorrupt, `"code":"corrupt"`},
		{"info http://127.0.0.1:1", exitStore, `"code":"gateway_unavailable"`},
		{"info s3://bucket/p?endpoint=" + bucket.URL, exitStore, `"code":"store_denied"`},
		{"info s3://bucket/p?endpoint=http://127.0.0.1:1", exitStore, `"code":"store_unavailable"`},
		{"index " + mixed, exitUsage, `"choices":[{"match":"*.csv"},{"match":"*.jpg"}]`},
		{"index " + splits + " --hidden", exitUsage, `"choices":[{"hidden":true,"split":"train"},{"hidden":true,"split":"val"},{"hidden":true,"split":"all"}]`},
		{"index " + numbers, exitUsage, `"choices":[{"dtype":"uint16","sequence_length":1024}]`},
		{"index " + array, exitUsage, `"choices":[{"format":"jsonl"},{"format":"files"}]`},
		{"index " + columns + " --fields caption", exitUsage, `"fields":["image.bytes","image.path","embedding",`},
		{"index " + numbers + " --sequence-length 4", exitUsage, `"code":"invalid_argument","exit":2,"message":"index file://` + numbers + `: `},
		{"serve --no-such --nor-this 3", exitUsage, `"message":"unknown flag: --no-such; unknown flag: --nor-this"`},
		{"serv", exitUsage, `"code":"invalid_argument"`},
	} {
		o := millrace(t, nil, append(strings.Fields(c.args), "--json")...)
		if o.code != c.exit || !strings.HasPrefix(o.stdout, `{"error":{"code":"`) || !strings.Contains(o.stdout, c.want) || strings.Count(o.stdout, "\n") != 1 {
			t.Errorf("%s: got exit code %d and %s, want %d and %s", c.args, o.code, o.stdout, c.exit, c.want)
		}
		if !json.Valid([]byte(o.stdout)) || strings.Contains(o.stderr, "rror") {
			t.Errorf("%s: got %s and %s, want JSON alone", c.args, o.stdout, o.stderr)
		}
	}
}

// TestReport_CauseDeterminesCode checks the causes that need a read-only store, or a signal.
func TestReport_CauseDeterminesCode(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		code string
		exit int
	}{
		{t.Context(), fmt.Errorf("%w: %w", build.ErrReadOnly, objstore.ErrDenied), "read_only", exitStore},
		{t.Context(), build.ErrClassFolders, "read_only", exitStore},
		{t.Context(), fmt.Errorf("%w: %w", build.ErrReadOnly, objstore.ErrNotFound), "read_only", exitStore},
		{ended, fmt.Errorf("index: %w", context.Canceled), "interrupted", exitInterrupted},
		{t.Context(), errors.New("odd"), "failed", exitFailure},
		{t.Context(), &client.Error{Code: "end_of_epoch"}, "end_of_epoch", exitNotFound},
		{t.Context(), &client.Error{}, "failed", exitFailure},
	} {
		if f := failureOf(c.ctx, c.err); f.Code != c.code || f.Exit != c.exit {
			t.Errorf("%v: got %s and %d, want %s and %d", c.err, f.Code, f.Exit, c.code, c.exit)
		}
	}
}

// TestCompletion_CompletesWords requests completions like a shell. The last line of the output is
// the directive: 0 files, 4 nothing, 16 directories.
func TestCompletion_CompletesWords(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"serve --log-level ", "debug\ninfo\nwarn\nerror\n:4\n"},
		{"serve --log-format t", "auto\ntext\njson\n:4\n"}, // the shell omits words that do not match
		{"fetch --tail ", "short\ndrop\npad\n:4\n"},
		{"serve --config ", ":0\n"},
		{"serve --disk-cache ", ":16\n"},
		{"serve --cache-size ", ":4\n"},
		{"serve ", ":16\n"},
		{"fetch ", ":4\n"},
		{"fetch http://gw:1 ", ":4\n"},
		{"index ", ":16\n"},
		{"plan ", ":16\n"},
		{"index a ", ":4\n"},
		{"pack ", ":0\n"},
		{"pack a ", ":16\n"},
	} {
		args := append([]string{"__complete"}, strings.Split(c.args, " ")...)
		if o := ok(t, args...); o.stdout != c.want {
			t.Errorf("%s: got %q, want %q", c.args, o.stdout, c.want)
		}
	}
}

func TestVersion_IsAlsoAFlag(t *testing.T) {
	if flag, command := ok(t, "--version").stdout, ok(t, "version").stdout; flag != command || !strings.HasPrefix(flag, "millrace ") {
		t.Errorf("got %q by the flag and %q by the command", flag, command)
	}
}

func TestQuiet_PrintsErrors(t *testing.T) {
	dir := shards(t)
	if o := ok(t, "serve", "--dataset", dir, "--check", "--cache-size", "64MiB"); !strings.Contains(o.stderr, "dataset opened") {
		t.Fatalf("got %s, want a line of the log", o.stderr)
	}
	for _, args := range [][]string{{"serve", "--dataset", dir, "--check", "-q"}, {"index", dir, "--window", "1", "--quiet"}} {
		if o := ok(t, args...); o.stderr != "" {
			t.Errorf("%v: got %s on stderr, want nothing", args, o.stderr)
		}
	}
	if o := millrace(t, nil, "verify", t.TempDir(), "-q"); o.code != exitNotFound || !strings.Contains(o.stderr, "no index here") {
		t.Errorf("got exit code %d and %q, want the error", o.code, o.stderr)
	}
	if o := ok(t, "serve", "--dataset", dir, "--check", "-v"); !strings.Contains(o.stderr, `"level":"debug"`) {
		t.Errorf("got %s, want lines of the level debug", o.stderr)
	}
	url := gatewayFor(t, dir)
	if o := ok(t, "explain", url, "-v"); !strings.Contains(o.stderr, "millrace: connect to "+strings.TrimPrefix(url, "http://")+": done\n") || !strings.Contains(o.stderr, "millrace explain: took 0.") {
		t.Errorf("got %s, want the connection and the time", o.stderr)
	}
	if o := millrace(t, nil, "verify", dir, "-qv"); o.code != exitUsage || !strings.Contains(o.stderr, "--quiet and --verbose exclude each other") {
		t.Errorf("got exit code %d and %q, want 2", o.code, o.stderr)
	}
}

func TestCommands_AcceptGatewayAsHostAndPort(t *testing.T) {
	url := gatewayFor(t, shards(t))
	address := strings.TrimPrefix(url, "http://")
	for _, command := range [][]string{{"fetch"}, {"explain", "--epoch", "1"}, {"warm"}} {
		if o := millrace(t, nil, append(command, address)...); o.code != exitOK {
			t.Errorf("%v: got exit code %d and %s, want 0", command, o.code, o.stderr)
		}
	}
	for _, wrong := range []string{"localhost", "localhost:http", "user:secret@localhost:8080", "localhost:99999", ":8080"} {
		if o := millrace(t, nil, "fetch", wrong); o.code != exitUsage || !strings.Contains(o.stderr, "http://HOST:PORT or HOST:PORT") || strings.Contains(o.stderr, "secret") {
			t.Errorf("%s: got exit code %d and %s, want 2 and the form", wrong, o.code, o.stderr)
		}
	}
}

// TestErrors_NameUnreachableGatewayOnce: the error contains the address and the cause, each once.
func TestErrors_NameUnreachableGatewayOnce(t *testing.T) {
	for _, command := range [][]string{{"explain"}, {"fetch"}} {
		o := millrace(t, nil, append(command, "127.0.0.1:1")...)
		if want := "millrace: http://127.0.0.1:1: no answer: connect: connection refused: start it, or correct the address\n"; o.code != exitStore || o.stderr != want {
			t.Errorf("%s: got exit code %d and %s, want 5 and %s", command[0], o.code, o.stderr, want)
		}
	}
}
