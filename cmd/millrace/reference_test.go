package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/internal/objstore"
)

// current compares the generated part of a page, which begins after its mark, with the expected
// text. With -update it writes the text.
func current(t *testing.T, page, want string) {
	t.Helper()
	const mark = "<!-- generated: go test ./cmd/millrace -run Reference -update -->\n"
	name := filepath.Join("../../docs", page)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, got, found := strings.Cut(string(text), mark)
	if !found {
		t.Fatalf("%s: want the mark %q", name, mark)
	}
	if *update {
		if err := os.WriteFile(name, []byte(head+mark+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s is not current: run go test ./cmd/millrace -run Reference -update", name)
	}
}

func TestReference_CommandsShowTheirHelp(t *testing.T) {
	a := &app{cli.New(nil, nil, nil)}
	var b strings.Builder
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Name() == "help" || c.Name() == "completion" {
			return
		}
		path := strings.Fields(c.CommandPath())
		help := "--help"
		if c.Flags().Lookup("help-all") != nil {
			help = "--help-all"
		}
		o := millrace(t, nil, append(path[1:], help)...)
		if o.code != exitOK {
			t.Errorf("%s: got exit code %d, want its help", c.CommandPath(), o.code)
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", c.CommandPath(), strings.TrimSpace(o.stdout))
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	walk(a.root(nil))
	current(t, "commands.md", b.String())
}

func TestReference_SettingsOfServe(t *testing.T) {
	var c serveConfig
	a := &app{cli.New(nil, nil, nil)}
	f := a.Settings(pflag.NewFlagSet("serve", pflag.ContinueOnError), c.define)
	sections, rows := []string{}, map[string]string{}
	f.Set.VisitAll(func(fl *pflag.Flag) {
		section := cli.SectionOf(fl)
		if section == "" {
			if !slices.Contains([]string{"check", "config", "help-all"}, fl.Name) {
				t.Errorf("--%s is in no section, so that neither the environment nor a file can set it", fl.Name)
			}
			return
		}
		_, usage := pflag.UnquoteUsage(fl)
		usage, _, _ = strings.Cut(usage, " (default ")
		def := fl.DefValue
		if slices.Contains([]string{"", "false", "0", "0B", "[]"}, def) {
			def = "-"
		}
		if rows[section] == "" {
			sections = append(sections, section)
		}
		rows[section] += fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", f.NameOf(fl.Name), cli.Variable(fl.Name), def, strings.ReplaceAll(usage, "|", "\\|"))
	})
	var b strings.Builder
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| setting | environment | default | meaning |\n|---|---|---|---|\n%s", section, rows[section])
	}
	current(t, "settings.md", b.String())
}

func TestReference_MetricsOfGateways(t *testing.T) {
	url := gatewayFor(t, shards(t))
	ok(t, "fetch", url)
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	shown, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(shown)
	// A gateway of one directory has only some of the metrics.
	sources, err := filepath.Glob("../internal/node/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Name: "(\w+)", Help: "([^"]*)"(.*Labels: of)?`).FindAllSubmatch(source, -1) {
			text += fmt.Sprintf("# HELP millrace_%s %s\n", m[1], m[2])
			if len(m[3]) > 0 {
				text += fmt.Sprintf("millrace_%s{dataset=\"\"} 0\n", m[1])
			}
		}
	}
	for _, err := range objstore.Vocabulary() {
		text += fmt.Sprintf("# HELP millrace_store_errors_%s_total Failed requests to S3 services: %v.\n", strings.ReplaceAll(err.Error(), " ", "_"), err)
	}
	rows := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# HELP (millrace_\w+) (.*)$`).FindAllStringSubmatch(text, -1) {
		kind := "gauge"
		switch {
		case strings.HasSuffix(m[1], "_total"):
			kind = "counter"
		case strings.Contains(text, "# TYPE "+m[1]+" histogram\n"):
			kind = "histogram"
		}
		labels := regexp.MustCompile(`(?m)^` + m[1] + `(?:_bucket)?\{(.*)\}`).FindStringSubmatch(text)
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(strings.Join(labels, ""), -1) {
			if l[1] != "le" && !strings.Contains(kind, "`"+l[1]+"`") {
				kind += " `" + l[1] + "`"
			}
		}
		rows[m[1]] = fmt.Sprintf("| `%s` | %s | %s |\n", m[1], kind, m[2])
	}
	var b strings.Builder
	b.WriteString("\n| metric | type, labels | meaning |\n|---|---|---|\n")
	for _, row := range slices.Sorted(maps.Values(rows)) {
		b.WriteString(row)
	}
	current(t, "metrics.md", b.String())
}

func TestReference_ExitCodes(t *testing.T) {
	text, err := os.ReadFile("../../docs/spec/output.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := exits()
	codes[codeFailed] = exitFailure
	for code, exit := range codes {
		if !regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\| (.*, )?`%s`(,.*)? \\| ", exit, code)).Match(text) {
			t.Errorf("docs/spec/output.md: want `%s` in the row of exit code %d", code, exit)
		}
	}
}
