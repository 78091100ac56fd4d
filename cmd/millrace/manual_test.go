package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestManual_HasEachCommandAndFlag: the manual has a page for each command that the help lists, and
// the page lists each of the command's flags.
func TestManual_HasEachCommandAndFlag(t *testing.T) {
	dir := t.TempDir()
	if o := millrace(t, nil, "man", dir); o.code != 0 {
		t.Fatalf("got exit code %d and %s", o.code, o.stderr)
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(millrace(t, nil, "--help").stdout, -1)
	if len(commands) < 10 {
		t.Fatalf("got the commands %v of the help, want more", commands)
	}
	for _, c := range commands {
		name := c[1]
		if name == "completion" || name == "help" {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "millrace-"+name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, flag := range regexp.MustCompile(`(?m)^ {2,6}(?:-[a-z], )?--([a-z0-9-]+)`).FindAllStringSubmatch(millrace(t, nil, name, "--help").stdout, -1) {
			if flag[1] != "help" && !strings.Contains(string(page), `\-\-`+strings.ReplaceAll(flag[1], "-", `\-`)+` `) {
				t.Errorf("the page of %s lacks --%s", name, flag[1])
			}
		}
	}
}
