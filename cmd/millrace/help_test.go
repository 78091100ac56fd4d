package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

func TestServeHelp_FitsOneScreen(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(ok(t, "serve", "--help").stdout, "\n"), "\n")
	if len(lines) > 40 {
		t.Errorf("got %d lines, want at most 40", len(lines))
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("got a line of %d columns, want at most 100: %s", n, line)
		}
	}
}

func TestServeHelpAll_ListsFlagsAndSettings(t *testing.T) {
	text := ok(t, "serve", "--help-all").stdout
	flags, settings, _ := strings.Cut(text, "\nSettings without a flag")
	if n := len(regexp.MustCompile(`(?m)^  (?:-\w,|   ) --[a-z]`).FindAllString(flags, -1)); n > 42 || n < 30 {
		t.Errorf("got %d flags, want 30 to 42", n)
	}
	for _, name := range []string{"drain-timeout", "part-size", "index-dir"} {
		if !strings.Contains(settings, "\n        "+name+" ") || strings.Contains(flags, "--"+name+" ") {
			t.Errorf("want %s among the settings without a flag", name)
		}
	}
}

func TestServe_NamesTheVariableOfASettingWithoutFlag(t *testing.T) {
	o := millrace(t, nil, "serve", "--part-size", "8MiB", ".")
	want := "millrace serve: --part-size: this setting has no flag: set MILLRACE_PART_SIZE, or part-size in section store of the file of --config\n"
	if o.code != exitUsage || !strings.HasPrefix(o.stderr, want) {
		t.Errorf("got exit code %d and %s, want 2 and %s", o.code, o.stderr, want)
	}
}

func TestServe_ComputesTheSizeOfTheDiskCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	o := ok(t, "serve", shards(t), "--check", "--disk-cache", dir)
	if !strings.HasSuffix(o.stderr, "ok: the gateway can start with these settings\n") {
		t.Errorf("got %q at the end, want ok", o.stderr)
	}
	size := regexp.MustCompile(`(?m)^ +disk-cache-size: ([1-9][0-9.]*[KMGT]iB)$`).FindStringSubmatch(o.stdout)
	if size == nil || strings.Contains(o.stdout, "# from the command line\n    disk-cache-size") {
		t.Errorf("got %s, want a computed disk-cache-size", o.stdout)
	}
}

// TestHelp_FlagsAreShort: each flag of each command takes one line of at most 100 columns, with a
// text of at most 79 characters.
func TestHelp_FlagsAreShort(t *testing.T) {
	for _, c := range commands(t) {
		c.Flags().VisitAll(func(fl *pflag.Flag) {
			placeholder, text := pflag.UnquoteUsage(fl)
			if n := len("      --"+fl.Name+" "+placeholder) + 2 + len(text); n > 100 || len(text) > 79 {
				t.Errorf("%s --%s: got a line of %d columns and a text of %d: %s", c.CommandPath(), fl.Name, n, len(text), text)
			}
		})
	}
}
