package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/cmd/internal/orders"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/internal/objstore"
)

var update = flag.Bool("update", false, "write the golden files anew")

type outcome struct {
	code           int
	stdout, stderr string
}

// millrace runs a command line. Arguments that begin with MILLRACE_ set environment variables.
func millrace(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	isVariable := func(arg string) bool { return strings.HasPrefix(arg, "MILLRACE_") }
	for _, arg := range args {
		if isVariable(arg) {
			env = append(slices.Clip(env), arg)
		}
	}
	args = slices.DeleteFunc(slices.Clone(args), isVariable)
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, env, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// ok runs a command and fails the test if the command fails.
func ok(t *testing.T, args ...string) outcome {
	t.Helper()
	o := millrace(t, nil, args...)
	if o.code != exitOK {
		t.Fatalf("millrace %s: got exit code %d, want 0\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o
}

func TestReference_HelpMatchesReviewedText(t *testing.T) {
	var got strings.Builder
	got.WriteString(ok(t, "--help").stdout)
	for _, c := range commands(t) {
		fmt.Fprintf(&got, "\n=== %s --help\n\n%s", c.CommandPath(), help(t, c))
	}
	golden(t, "testdata/help.golden", got.String())
	for line := range strings.Lines(got.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("got a line of %d columns, want 100 at most: %s", n, line)
		}
	}
}

// help returns the help text of a command.
func help(t *testing.T, c *cobra.Command) string {
	return ok(t, append(strings.Fields(c.CommandPath())[1:], "--help")...).stdout
}

// commands returns all commands, built for a fixed machine, since its defaults do not matter.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	a := &app{cli.New(nil, nil, nil)}
	var all []*cobra.Command
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "completion" {
				all = append(all, sub)
				add(sub)
			}
		}
	}
	add(a.root(nil))
	return all
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test ./cmd/millrace -run Reference -update writes it): got\n%s", name, got)
	}
}

func TestFlags_HaveOneDefault(t *testing.T) {
	for _, c := range commands(t) {
		c.Flags().VisitAll(func(fl *pflag.Flag) {
			if strings.Contains(fl.Usage, "(default ") && fl.DefValue != "" && fl.DefValue != "0" && fl.DefValue != "[]" {
				t.Errorf("%s: got %q and %q as the defaults of --%s, want one", c.CommandPath(), fl.Usage, fl.DefValue, fl.Name)
			}
		})
	}
}

func TestCommands_HaveExamples(t *testing.T) {
	for _, c := range commands(t) {
		if !strings.HasPrefix(c.Example, "  "+c.CommandPath()) {
			t.Errorf("%s: got example %q, want one that begins with the command", c.Name(), c.Example)
		}
	}
}

func TestCommands_ReportAllFaultsTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("store:\n  parallel: many\n  no-such-key: 1\n  epoch: 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := millrace(t, []string{"MILLRACE_PART_SIZE=big", "MILLRACE_TYPO=1"},
		"serve", "--config", file, "--listen", "0.0.0.0:80", "--cache-size", "x", "--lame-duck=-1s", "--log-level", "loud", "s3://a/*.tar")
	if o.code != exitUsage {
		t.Errorf("got exit code %d, want 2", o.code)
	}
	for _, want := range []string{
		"--parallel", "no-such-key", "MILLRACE_PART_SIZE", "MILLRACE_TYPO", "--insecure-no-auth", "--cache-size", "--lame-duck", "--log-level", "an address cannot contain a pattern: use s3://a/",
		"c.yaml:4: unknown key \"epoch\" in section store", // the key belongs to another command and would have no effect
	} {
		if !strings.Contains(o.stderr, want) {
			t.Errorf("%s is not among the faults:\n%s", want, o.stderr)
		}
	}
	if o.stdout != "" {
		t.Errorf("got %q on stdout, want nothing", o.stdout)
	}
}

func TestUsageErrors_ExitWith2(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"nonsense"},
		{"index"},
		{"index", "ftp://x"},
		{"serve", "--no-such-flag"},
		{"verify", "s3://UPPER/x"},
		{"index", "s3://key:secret@bucket/x"},
		{"fetch", "gw"},
		{"fetch", "http://gw", "--rank", "2", "--world-size", "2"},
		{"fetch", "http://gw", "--parallel", "0"},
		{"demo", "/no/such/dir"},
		{"demo", "x", "--listen", "0.0.0.0:1"},
		{"serve", "--dataset", "a=/x", "--dataset", "a=/y"},
		{"index", "x", "--window", "0"},
		{"index", "x", "--window", "2147483649"},
		{"index", "x", "--batch-size", "2147483649"},
		{"index", "x", "--chunk-size", "1025MiB"},
		{"plan", "x", "--seed", "1"},
		{"plan", "x", "--epoch", "1"},
		{"plan", "x", "--balance", "bytes"},
		{"plan", "x", "--balance", "samples", "--world-size", "2"},
		{"plan", "x", "--balance", "cost:", "--world-size", "2"},
		{"plan", "x", "--balance", "bytes", "--world-size", "2", "--homes", "2"},
		{"plan", "x", "--bucket", "2"},
		{"plan", "x", "--share", "locality"},
		{"plan", "x", "--homes", "2"},
		{"explain", "http://gw", "--cache-size", "1GiB"},
		{"explain", "http://gw", "--prices", "egress=1"},
		{"explain", "http://gw", "--world-size", "2,4"},
		{"fetch", "http://gw", "--share", "locality", "--balance", "bytes"},
		{"fetch", "dns:gw"},
		{"fetch", "unix:"},
		{"fetch", "unix:socket"},
		{"fetch", "dns:user:secret@gw:80"},
		{"explain", "http://gw", "--share", "near"},
		{"plan", "x", "--importance", "abc"},
		{"warm"},
		{"warm", "gw"},
		{"pack", "photos", "photos"},
		{"pack", "other", "photos", "file://" + here + "/photos/shards"},
	} {
		o := millrace(t, nil, args...)
		if o.code != exitUsage {
			t.Errorf("%q: got exit code %d, want 2\n%s", args, o.code, o.stderr)
		}
		if strings.Contains(o.stderr, "secret@") {
			t.Errorf("%q: the secret is printed: %s", args, o.stderr)
		}
	}
}

func TestServe_FlagOverridesEnvironmentOverridesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("store: {parallel: 3}\nports:\n  lame-duck: 3s\n  listen: 127.0.0.1:3\ndata:\n  dataset:\n    - a=/a\n    - b=/b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var c serveConfig
	a := &app{cli.New([]string{"MILLRACE_PARALLEL=2", "MILLRACE_LAME_DUCK=2s"}, nil, nil)}
	f := a.Settings(pflag.NewFlagSet("serve", pflag.ContinueOnError), c.define)
	if err := f.Set.Parse([]string{"--parallel", "1", "--config", file}); err != nil {
		t.Fatal(err)
	}
	f.Load()
	if err := f.Err(); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%d %v %s %v %v", c.Parallel, c.LameDuck, c.Listen, c.DrainTimeout, c.dataset)
	if want := "1 2s 127.0.0.1:3 45s [a=/a b=/b]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDatasetAddresses(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"photos=s3://bucket/a/b": "photos s3://bucket/a/b", "s3://bucket/a/b/": "b s3://bucket/a/b", "s3://bucket": "bucket s3://bucket/",
		"file:///data/x": "x file:///data/x", "p=file:///data/x": "p file:///data/x", "./x": "x file://" + wd + "/x", "p=x/y": "p file://" + wd + "/x/y",
		"/data/a=b": "", "s3://b_/x": "", "file://host/x": "", "http://x/y": "", "bad name=/x": "", "": "", "s3://bucket/x?y=1": "",
		"photos=s3://bk1/a?region=eu&profile=team-a": "photos s3://bk1/a?region=eu&profile=team-a", "s3://bk1/a?bandwidth=500MB&endpoint=http://h:9": "a s3://bk1/a?endpoint=http://h:9&bandwidth=500MB",
	} {
		l, err := location.Parse(in)
		got := ""
		if err == nil {
			got = l.Name + " " + l.String()
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", in, got, err, want)
		}
	}
}

// gatewayFor serves a directory until the test ends.
func gatewayFor(t *testing.T, dir string) string { return gatewayOf(t, "files=file://"+dir) }

// gatewayOf serves a dataset until the test ends.
func gatewayOf(t *testing.T, dataset string) string {
	t.Helper()
	return gatewayAt(t, dataset, "127.0.0.1:0")
}

// gatewayAt serves a dataset at an address until the test ends.
func gatewayAt(t *testing.T, dataset, listen string) string {
	t.Helper()
	l, err := location.Parse(dataset)
	if err != nil {
		t.Fatal(err)
	}
	a := &app{cli.New([]string{"GOMEMLIMIT=off"}, &bytes.Buffer{}, &bytes.Buffer{})}
	c := &serveConfig{logLevel: "error", logFormat: "json", Config: node.Config{CacheSize: 64 << 20, Memory: 1 << 40, Listen: listen, AccessConfig: node.AccessConfig{Allow: []auth.Right{auth.Read, auth.Report, auth.Warm}}, DrainTimeout: defaultDrain, // a request whose client has just disconnected may still be open
		Locations: []location.Location{l}}}
	url, _ := a.running(t, c)
	return url
}

// running serves until the test ends or stop is called, and returns the URL.
func (a *app) running(t *testing.T, c *serveConfig) (url string, stop func()) {
	t.Helper()
	s, err := a.compose(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan net.Addr, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx, func(at net.Addr) { ready <- at }); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait(); s.Close() })
	t.Cleanup(stop)
	return "http://" + (<-ready).String(), stop
}

// shards packs a few files and returns the directory of their shards.
func shards(t *testing.T) string {
	t.Helper()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("f%03d.txt", i)), bytes.Repeat([]byte{byte(i)}, 700*i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "pack", from, to, "--shard-size", "256KiB", "--chunk-size", "64KiB", "--batch-size", "8", "--window", "4")
	return to
}

func TestPackServeFetchPlan(t *testing.T) {
	dir := shards(t)
	url := gatewayFor(t, dir)
	for _, more := range [][]string{{}, {"--world-size", "3", "--all-ranks"}, {"--balance", "bytes", "--world-size", "3", "--all-ranks"}, {"--share", "locality", "--world-size", "3", "--all-ranks"}, {"--shuffle", "window", "--window", "4", "--strata", "2", "--share", "locality", "--world-size", "2", "--all-ranks"}, {"--tail", "drop"}, {"--tail", "pad"}, {"--tail", "drop", "--batch-size", "1000"}, {"--tail", "drop", "--batch-size", "1000", "--world-size", "2", "--all-ranks"}, {"--from", "2", "--until", "5"}, {"--no-manifest"}} {
		args := append([]string{"fetch", url, "--epoch", "1", "--json"}, more...)
		var rep fetchReport
		if err := json.Unmarshal([]byte(ok(t, args...).stdout), &rep); err != nil {
			t.Fatal(err)
		}
		want := uint64(50)
		switch strings.Join(more, " ") {
		case "--tail drop":
			want = 48
		case "--tail pad":
			want = 56
		case "--tail drop --batch-size 1000", "--tail drop --batch-size 1000 --world-size 2 --all-ranks": // all tail
			want = 0
		case "--from 2 --until 5":
			want = 24
		}
		if rep.Samples != want {
			t.Errorf("%v: got %d samples, want %d", more, rep.Samples, want)
		}
		if measured := 0 < rep.P50 && rep.P50 <= rep.P99 && rep.P99 <= rep.Max; measured != (want > 0) {
			t.Errorf("%v: got latencies p50 %v ms, p99 %v ms, max %v ms, want them in this order", more, rep.P50, rep.P99, rep.Max)
		}
	}
	out := t.TempDir()
	for range 2 {
		ok(t, "fetch", url, "--output", out)
		files, err := filepath.Glob(filepath.Join(out, "*"))
		if err != nil || len(files) != 7 || filepath.Base(files[6]) != "batch-000006.tar" {
			t.Errorf("got %v (%v), want batch-000000.tar to batch-000006.tar", files, err)
		}
	}
	for _, args := range [][]string{{"explain", url, "--batch", "2"}, {"plan", dir}, {"verify", dir}, {"gc", dir}, {"index", dir}, {"fetch", url}} {
		if o := ok(t, append(args, "--json")...); !json.Valid([]byte(o.stdout)) {
			t.Errorf("%v --json: got %q, want JSON", args, o.stdout)
		}
		if o := ok(t, args...); o.stdout == "" || json.Valid([]byte(o.stdout)) {
			t.Errorf("%v: got %q, want text", args, o.stdout)
		}
	}
	if o := millrace(t, nil, "fetch", url, "--dataset", "nope"); o.code != exitNotFound {
		t.Errorf("unknown dataset: got exit code %d, want 4\n%s", o.code, o.stderr)
	}
	if o := millrace(t, nil, "fetch", url, "--from", "100"); o.code != exitNotFound {
		t.Errorf("past the end: got exit code %d, want 4\n%s", o.code, o.stderr)
	}
}

func TestFetch_FromSeveralGatewaysAndDNSName(t *testing.T) {
	dir := shards(t)
	a, b := gatewayFor(t, dir), gatewayFor(t, dir)
	port := a[strings.LastIndex(a, ":")+1:]
	for _, args := range [][]string{
		{a, b, "--share", "locality", "--world-size", "4", "--all-ranks"},
		{"http://127.0.0.1:1", b},
		{"dns:localhost:" + port},
	} {
		var rep fetchReport
		if err := json.Unmarshal([]byte(ok(t, append(append([]string{"fetch"}, args...), "--json")...).stdout), &rep); err != nil {
			t.Fatal(err)
		}
		if rep.Samples != 50 || rep.Proved != "every sample came exactly once" {
			t.Errorf("%v: got %d samples and %q, want 50, each exactly once", args, rep.Samples, rep.Proved)
		}
	}
	o := ok(t, "explain", a, "--share", "locality", "--world-size", "2")
	if !strings.Contains(o.stdout, "moved ") || !strings.Contains(o.stdout, "share  ") {
		t.Errorf("got %s, want the share and what moves", o.stdout)
	}
	if o := millrace(t, nil, "explain", a, "--share", "locality", "--shuffle", "none"); o.code == 0 || !strings.Contains(o.stderr, "has no homes") {
		t.Errorf("got exit code %d and %s, want the gateway's reason", o.code, o.stderr)
	}
}

// TestCommands_AcceptUnixSocket: every command that accepts the address of a gateway accepts that
// of a Unix socket.
func TestCommands_AcceptUnixSocket(t *testing.T) {
	short, err := os.MkdirTemp("", "m") // the test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	at := "unix:" + filepath.Join(short, "a socket")
	gatewayAt(t, "files=file://"+shards(t), at)
	for _, args := range [][]string{
		{"fetch", at}, {"explain", at}, {"info", at, "--dataset", "files"}, {"warm", at, "--epoch", "0"},
	} {
		if o := ok(t, append(args, "--json")...); !json.Valid([]byte(o.stdout)) {
			t.Errorf("%v: got %q, want JSON", args, o.stdout)
		}
	}
	gone := "unix:" + filepath.Join(short, "nobody")
	if o := millrace(t, nil, "fetch", gone); o.code == 0 || !strings.Contains(o.stderr, gone) {
		t.Errorf("got exit code %d and %q, want a fault that names %s", o.code, o.stderr, gone)
	}
}

func TestPlan_ComparesRequestedOrders(t *testing.T) {
	dir := shards(t)
	listed := func(args ...string) (all []orders.Row) {
		var out struct{ Orders []orders.Row }
		if err := json.Unmarshal([]byte(ok(t, append([]string{"plan", dir, "--json"}, args...)...).stdout), &out); err != nil {
			t.Fatal(err)
		}
		return out.Orders
	}
	usual := listed()
	if more := listed("--window", "7"); len(more) != len(usual)+2 {
		t.Errorf("--window 7: got %d orders, want two more than %d", len(more), len(usual))
	}
	if same := listed("--window", "64"); len(same) != len(usual) {
		t.Errorf("--window 64: got %d orders, want the usual %d", len(same), len(usual))
	}
	slot := listed("--shuffle", "slot", "--window", "9")
	if len(slot) != 7 || slot[0].Window != 9 || !slot[6].Default { // five usual windows, 9, and the default, 4
		t.Errorf("--shuffle slot --window 9: got %+v", slot)
	}
	for _, o := range slot {
		if o.Shuffle != "slot" {
			t.Errorf("--shuffle slot: got %+v", o)
		}
	}
}

func TestVerify_BadRangeExitsWith3(t *testing.T) {
	dir := shards(t)
	names, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil || len(names) < 2 {
		t.Fatalf("got shards %v, %v", names, err)
	}
	text, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	text[5000] ^= 1
	if err := os.WriteFile(names[1], text, 0o644); err != nil {
		t.Fatal(err)
	}
	if o := millrace(t, nil, "verify", dir); o.code != exitCorrupt || !strings.Contains(o.stdout, filepath.Base(names[1])) {
		t.Errorf("got exit code %d, want 3 and the shard's name\n%s%s", o.code, o.stdout, o.stderr)
	}
}

// TestVerify_CopiedDataset copies a dataset with its index. The bytes are the same, but times and
// inodes differ. index adopts the copied files under the same generation.
func TestVerify_CopiedDataset(t *testing.T) {
	dir, other := shards(t), filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	o := millrace(t, nil, "verify", other)
	if o.code != exitFailure || strings.Contains(o.stdout, "corrupt") || strings.Contains(o.stderr, "corrupt") || !strings.Contains(o.stdout, "with the same bytes") ||
		!strings.Contains(o.stdout, "0 bad ranges") || !strings.Contains(o.stderr, "run 'millrace index file://"+other+"'") {
		t.Errorf("got exit code %d, want %d and the cure\n%s%s", o.code, exitFailure, o.stdout, o.stderr)
	}
	if o := millrace(t, nil, "quarantine", other, "--verify"); o.code != exitFailure || !strings.Contains(o.stderr, "run 'millrace index file://"+other+"'") {
		t.Errorf("quarantine: got exit code %d, want %d and the cure\n%s%s", o.code, exitFailure, o.stdout, o.stderr)
	}
	generation := func(dir string) string { return strings.Fields(ok(t, "index", dir, "--chunk-size", "8MiB").stdout)[3] }
	if was, is := generation(dir), generation(other); was != is || len(was) != 64 {
		t.Errorf("got generation %s of the copy, want %s", is, was)
	}
	ok(t, "verify", other)
	names, err := filepath.Glob(filepath.Join(other, "*.tar"))
	if err != nil || len(names) < 2 {
		t.Fatal(names, err)
	}
	if err := errors.Join(os.Chtimes(names[0], time.Time{}, time.Unix(1, 0)), os.Remove(names[1])); err != nil {
		t.Fatal(err)
	}
	o = millrace(t, nil, "verify", other)
	if want := filepath.Base(names[1]) + " is missing: put all files back"; o.code != exitCorrupt || !strings.Contains(o.stderr, want) || !strings.Contains(o.stdout, ", 1 bad range,") {
		t.Errorf("got exit code %d, want %d and %q\n%s%s", o.code, exitCorrupt, want, o.stdout, o.stderr)
	}
}

func TestVerify_ReportsEarlyEnd(t *testing.T) {
	l := location.Location{Dir: "/d"}
	bad, copied := chunkindex.BadRange{Shard: "a.tar", Cause: "corrupt"}, chunkindex.BadRange{Shard: "b.tar", Cause: chunkindex.Rewritten}
	for _, c := range []struct {
		bad  []chunkindex.BadRange
		more []chunkindex.BadRange // rewritten
		err  error
		code int
		text string
	}{
		{nil, nil, nil, exitOK, ""},
		{nil, nil, objstore.ErrTimeout, exitStore, "too"},
		{[]chunkindex.BadRange{bad, bad}, []chunkindex.BadRange{copied}, nil, exitCorrupt, "a.tar is damaged: its bytes do not match their digests: restore it; 'millrace verify file:///d' lists all bad ranges (2 bad ranges"},
		{[]chunkindex.BadRange{bad}, nil, fmt.Errorf("read a: %w", objstore.ErrTimeout), exitCorrupt, "not everything was read: read a"},
		{nil, []chunkindex.BadRange{copied}, nil, exitFailure, "b.tar was copied or written again since it was indexed, with the same bytes: run 'millrace index file:///d'"},
		{nil, []chunkindex.BadRange{copied}, objstore.ErrTimeout, exitStore, "too"},
	} {
		err := verdict(l, c.bad, c.more, c.err)
		code := exitOK
		if err != nil {
			code = failureOf(t.Context(), err).Exit
		}
		if code != c.code || code != exitOK && code != exitStore && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v and %v: got exit code %d and %v, want %d and %q", c.bad, c.err, code, err, c.code, c.text)
		}
	}
}

func TestServeCheck_PrintsConfigurationThatServeAccepts(t *testing.T) {
	dir := shards(t)
	first := ok(t, "serve", "--check", "--dataset", "files="+dir, "--cache-size", "64MiB", "--admin-listen", "127.0.0.1:9")
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(first.stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	second := ok(t, "serve", "--check", "--config", file)
	plain := func(s string) string {
		var keep []string
		for l := range strings.Lines(s) {
			if !strings.HasPrefix(strings.TrimSpace(l), "#") {
				keep = append(keep, l)
			}
		}
		return strings.Join(keep, "")
	}
	if got, want := plain(second.stdout), plain(first.stdout); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestServe_WorksWithMinimumBudget starts serve with the minimum that its error names, and 1 MiB
// less.
func TestServe_WorksWithMinimumBudget(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	for _, name := range []string{"big.bin", "bigger.bin"} {
		if err := os.WriteFile(filepath.Join(from, name), make([]byte, 2<<20), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "pack", from, to, "--chunk-size", "1MiB")
	small := shards(t)
	args := func(size string) []string {
		return []string{"serve", "--check", "--dataset", "big=" + to, "--dataset", "small=" + small, "--cache-size", size}
	}
	o := millrace(t, nil, args("4MiB")...)
	least := regexp.MustCompile(`^millrace serve: --cache-size: 4\.0 MiB is too small: must be at least (\d+) MiB: the largest chunk of big takes 2\.0 MiB\n`).FindStringSubmatch(o.stderr)
	if o.code != exitUsage || least == nil {
		t.Fatalf("got exit code %d and %s, want 2 and the least size in one line", o.code, o.stderr)
	}
	n, _ := strconv.Atoi(least[1])
	if o := millrace(t, nil, args(fmt.Sprintf("%dMiB", n-1))...); o.code != exitUsage {
		t.Errorf("1 MiB less: got exit code %d, want 2\n%s", o.code, o.stderr)
	}
	ok(t, args(least[1]+"MiB")...)
}

func TestMissingIndex_ExitsWith4(t *testing.T) {
	if o := millrace(t, nil, "verify", t.TempDir()); o.code != exitNotFound {
		t.Errorf("got exit code %d, want 4\n%s", o.code, o.stderr)
	}
}

func TestInterrupt_ExitsWith130(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if got := run(ctx, []string{"verify", shards(t)}, nil, &stdout, &stderr); got != exitInterrupted {
		t.Errorf("got exit code %d, want 130\n%s", got, stderr.String())
	}
}
