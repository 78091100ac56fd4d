package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
	want := table()
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

// table lists the settings of serve.
func table() string {
	var c serveConfig
	f := &flags{set: pflag.NewFlagSet("serve", pflag.ContinueOnError), source: map[string]string{}}
	f.set.SortFlags = false
	c.define(f)
	var b strings.Builder
	b.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
	f.set.VisitAll(func(fl *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(fl)
		usage, _, _ = strings.Cut(usage, " (default ")
		def := fl.DefValue
		if def == "" || def == "false" {
			def = "-"
		}
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", fl.Name, variable(fl.Name), def, usage)
	})
	return b.String()
}
