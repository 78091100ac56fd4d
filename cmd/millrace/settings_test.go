package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/cmd/internal/cli"
)

// TestCommands_OnlyServeReadsEnvironment: the environment variables of a gateway's container do not
// affect other commands that run there.
func TestCommands_OnlyServeReadsEnvironment(t *testing.T) {
	dir := shards(t)
	url := gatewayFor(t, dir)
	env := []string{
		"MILLRACE_DATASET=photos=file:///photos", "MILLRACE_SPLIT=locality", "MILLRACE_FROM=/x", "MILLRACE_KEY=path", "MILLRACE_CONFIG=/none.yaml",
		"MILLRACE_CACHE_SIZE=1KiB", "MILLRACE_NO_SUCH_SETTING=1", "MILLRACE_JSON=true", "MILLRACE_SHUFFLE=none",
	}
	for _, args := range [][]string{{"fetch", url}, {"plan", dir}, {"subset", dir, "--into", "a=1,b=1"}, {"verify", dir}, {"version"}} {
		want := ok(t, args...).code
		if o := millrace(t, env, args...); o.code != want || json.Valid([]byte(o.stdout)) {
			t.Errorf("%v: got exit code %d and %s%s, want %d and text", args, o.code, o.stdout, o.stderr, want)
		}
	}
	if o := millrace(t, nil, "fetch", url, "--config", "x.yaml"); o.code != exitUsage || !strings.Contains(o.stderr, "unknown flag: --config") {
		t.Errorf("fetch --config: got exit code %d and %s, want 2: a file of settings is for serve", o.code, o.stderr)
	}
	env = []string{"MILLRACE_DATASET=files=" + dir, "MILLRACE_CACHE_SIZE=64MiB", "MILLRACE_TOKEN=t", "MILLRACE_TOKEN_FILE=/x"}
	o := millrace(t, env, "serve", "--check")
	for _, want := range []string{"# from MILLRACE_DATASET\n    dataset:\n        - files=file://" + dir, "# from MILLRACE_CACHE_SIZE\n    cache-size: 64MiB\n"} {
		if o.code != exitOK || !strings.Contains(o.stdout, want) {
			t.Errorf("serve --check: got exit code %d, %s%s, want %q", o.code, o.stdout, o.stderr, want)
		}
	}
	for variable, want := range map[string]string{
		"MILLRACE_CASHE_SIZE=1": "unknown variable MILLRACE_CASHE_SIZE: did you mean MILLRACE_CACHE_SIZE?\n",
		"MILLRACE_EPOCH=1":      "unknown variable MILLRACE_EPOCH\n",
		"MILLRACE_CHECK=true":   "unknown variable MILLRACE_CHECK: did you mean MILLRACE_CHECK_SHA256?\n",
	} {
		if o := millrace(t, append(env, variable), "serve", "--check"); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: got exit code %d and %s, want 2 and %q", variable, o.code, o.stderr, want)
		}
	}
}

// TestServe_ReportsFaultsOfConfigurationFile: each fault is reported with its line. For a misplaced
// key, the right section is named.
func TestServe_ReportsFaultsOfConfigurationFile(t *testing.T) {
	dir := shards(t)
	for text, want := range map[string]string{
		"data: {dataset: " + dir + "}\n":                      "",
		"# nothing\ndata:\n  dataset: [" + dir + "]\nlog:\n":  "",
		"ports:\n  listen: 127.0.0.1:1\n  cache-size: 8MiB\n": `:3: key "cache-size" belongs to section memory, not beside section ports`,
		"listen: 127.0.0.1:1\n":                               `:1: key "listen" belongs to section ports, not beside the sections`,
		"port:\n  listen: 127.0.0.1:1\n":                      `:1: unknown section "port": did you mean ports?: sections are data, ports, access, memory, disk, cluster, store, log`,
		"memory:\n  cash-size: 8MiB\n":                        `:2: unknown key "cash-size" in section memory: did you mean cache-size?`,
		"store:\n  s3-endpoint: http://x\n":                   `:2: unknown key "s3-endpoint" in section store: set it in the address of the dataset, as in 's3://bucket/prefix?endpoint=URL'`,
		"data:\n  batch-size: 7\n":                            `:2: unknown key "batch-size" in section data`,
		"data:\n  config: x\n":                                `:2: unknown key "config" in section data`,
		"data:\n  check: true\n":                              `:2: unknown key "check" in section data`,
		"memory:\n  cache-size: much\n":                       `:2: --cache-size "much": must be a size`,
		"memory: {cache-size: 64MiB, cache-size: 64MiB}\n":    `"cache-size" is given twice`,
		"memory: {cache-size: [64MiB, 128MiB]}\n":             `:1: --cache-size: must be one value, not a list of 2`,
		"access: {allow: [read, write]}\n":                    `:1: --allow "write": must be one of read, report, warm`,
		"data: {dataset: x}\n---\ndata: {dataset: y}\n":       "must be one YAML document",
		"memory: 3\n":                   "section memory: must be keys with values",
		"- a\n":                         "the file: must be keys with values",
		"data: {dataset: {a: b}}\n":     `key "dataset": must be a plain value or a list of plain values`,
		"data: {dataset: [&a x, *a]}\n": `key "dataset": must be a plain value or a list of plain values`,
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := millrace(t, nil, "serve", "--check", "--config", file)
		switch {
		case want == "" && o.code != exitOK:
			t.Errorf("%q: got exit code %d and %s, want 0", text, o.code, o.stderr)
		case want != "" && (o.code != exitUsage || !strings.Contains(o.stderr, want)):
			t.Errorf("%q: got exit code %d and %s, want 2 and %q", text, o.code, o.stderr, want)
		}
	}
}

// TestServe_AcceptsFileOfDocumentation: serve --check accepts the file in docs/settings.md.
func TestServe_AcceptsFileOfDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n```yaml\ndata:\n")
	text, _, _ := strings.Cut(rest, "```\n")
	text = strings.NewReplacer("s3://bucket/imagenet", shards(t), "16GiB", "64MiB").Replace("data:\n" + text)
	file := filepath.Join(t.TempDir(), "millrace.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil || !found {
		t.Fatalf("found the file: %v (%v)", found, err)
	}
	if o := ok(t, "serve", "--check", "--config", file); strings.Count(o.stdout, "# from "+file+":") != 3 {
		t.Errorf("got %s, want three settings of the file", o.stdout)
	}
}

// TestServe_AcceptsPrintedSettings: serve accepts the output of serve --check, as YAML and as JSON,
// and prints the same again.
func TestServe_AcceptsPrintedSettings(t *testing.T) {
	dir := shards(t)
	args := []string{
		"serve", "--check", "--dataset", "files=" + dir, "--dataset", "more=" + dir, "--mixture", "both=files:1,more:2,samples=30", "--cache-size", "64MiB",
		"--quota", "more=32MiB,disk=8MiB", "--disk-cache", filepath.Join(t.TempDir(), "a # b: c"), "--disk-cache-size", "16MiB", "MILLRACE_INDEX_DIR=",
		"--admin-listen", "127.0.0.1:9", "--no-prefetch", "--cluster", "job-a", "--join", "127.0.0.1", "--peer-listen", "127.0.0.1:7946",
		"--peer-insecure", "--member", "null", "--allow", "read,report", "--host", "a.example,b.example",
	}
	for _, form := range []string{"--json=false", "--json"} {
		first := ok(t, append(args, form)...).stdout
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
			t.Fatal(err)
		}
		second := ok(t, "serve", "--check", "--config", file, form).stdout
		if got, want := uncommented(second), uncommented(first); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", form, got, want)
		}
		if form == "--json" {
			var sections map[string]map[string]any
			if err := json.Unmarshal([]byte(first), &sections); err != nil || len(sections["data"]["dataset"].([]any)) != 2 {
				t.Errorf("got %v (%v), want sections with settings", sections, err)
			}
		}
	}
}

// uncommented returns a configuration without the lines that name the sources of its values.
func uncommented(text string) string {
	var keep []string
	for l := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(l), "#") {
			keep = append(keep, l)
		}
	}
	return strings.Join(keep, "")
}

// TestServeConfig_NamesFieldsAfterFlags: a setting has one name in all forms: --drain-timeout,
// drain-timeout, MILLRACE_DRAIN_TIMEOUT, DrainTimeout.
func TestServeConfig_NamesFieldsAfterFlags(t *testing.T) {
	var c serveConfig
	fields := map[uintptr]string{}
	var walk func(reflect.Value)
	walk = func(s reflect.Value) {
		for field, v := range s.Fields() {
			if fields[v.UnsafeAddr()] = field.Name; v.Kind() == reflect.Struct {
				walk(v)
			}
		}
	}
	walk(reflect.ValueOf(&c).Elem())
	cli.New(nil, nil, nil).Settings(pflag.NewFlagSet("serve", pflag.ContinueOnError), func(f *cli.Flags) {
		c.define(f)
		f.Set.VisitAll(func(fl *pflag.Flag) {
			field := fields[reflect.ValueOf(fl.Value).Elem().FieldByName("p").Pointer()]
			if !strings.EqualFold(field, strings.ReplaceAll(fl.Name, "-", "")) {
				t.Errorf("--%s: got field %q, want the name of the flag", fl.Name, field)
			}
		})
	})
}
