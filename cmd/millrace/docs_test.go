package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	tableBegin = "<!-- configuration table: written by go test ./cmd/millrace -update -->\n"
	tableEnd   = "<!-- end of the configuration table -->\n"
)

func TestConfigurationTableInTheDocumentationIsTrue(t *testing.T) {
	const name = "../../docs/operations.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), tableBegin)
	got, tail, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no configuration table between its marks", name)
	}
	want := table(t)
	if *update {
		if err := os.WriteFile(name, []byte(head+tableBegin+want+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s (go test ./cmd/millrace -update writes it anew): got\n%s\nwant\n%s", name, got, want)
	}
}

func TestExitCodesInTheDocumentationAreTrue(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := exits()
	codes[codeFailed] = exitFailure
	for code, exit := range codes {
		if !regexp.MustCompile(fmt.Sprintf("(?m)^\\| %d \\| (.*, )?`%s`(,.*)? \\| ", exit, code)).Match(text) {
			t.Errorf("docs/operations.md: want `%s` in the row of exit code %d", code, exit)
		}
	}
}

// TestMetricsInTheDocumentationExist looks for each metric of the page among those that a gateway shows.
func TestMetricsInTheDocumentationExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	names := regexp.MustCompile(`millrace_[a-z_]+`).FindAllString(section, -1)
	if !found || len(names) < 20 {
		t.Fatalf("got %d metrics in the section, want its table", len(names))
	}
	url := gatewayFor(t, shards(t))
	ok(t, "fetch", url, "--discard")
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	shown, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	// A directory, and a gateway alone, do not have all of them.
	sources, err := filepath.Glob("../internal/node/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`Name: "(\w+)", Help`).FindAllSubmatch(text, -1) {
			shown = fmt.Appendf(shown, "# TYPE millrace_%s\n", m[1])
		}
	}
	for _, err := range objstore.Vocabulary() {
		shown = fmt.Appendf(shown, "# TYPE millrace_store_errors_%s_total\n", strings.ReplaceAll(err.Error(), " ", "_"))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^# TYPE ` + name + `\b`).Match(shown) {
			t.Errorf("docs/operations.md: no gateway shows %s", name)
		}
	}
}

// table lists the settings of serve.
func table(t *testing.T) string {
	t.Helper()
	var c serveConfig
	a := &app{cli.New(nil, nil, nil)}
	f := a.Settings(pflag.NewFlagSet("serve", pflag.ContinueOnError), c.define)
	var b strings.Builder
	b.WriteString("| section | flag | environment | default | meaning |\n|---|---|---|---|---|\n")
	f.Set.VisitAll(func(fl *pflag.Flag) {
		section := cli.SectionOf(fl)
		if section == "" {
			if slices.Contains([]string{"check", "config"}, fl.Name) {
				return // of the command line alone
			}
			t.Errorf("--%s is in no section, so that neither the environment nor a file can set it", fl.Name)
		}
		_, usage := pflag.UnquoteUsage(fl)
		usage, _, _ = strings.Cut(usage, " (default ")
		def := fl.DefValue
		if def == "" || def == "false" || def == "0" || def == "0B" || def == "[]" {
			def = "-"
		}
		fmt.Fprintf(&b, "| %s | `--%s` | `%s` | %s | %s |\n", section, fl.Name, cli.Variable(fl.Name), def, usage)
	})
	return b.String()
}
