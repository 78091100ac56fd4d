package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestManual_HasEachCommandAndFlag: the manual has a page for each command of the program's help,
// with its summary, and all flags of the commands.
func TestManual_HasEachCommandAndFlag(t *testing.T) {
	r := &release{root: "../..", version: "0.1.0"}
	files, err := r.manual()
	if err != nil {
		t.Fatal(err)
	}
	pages, all := map[string]string{}, ""
	for _, f := range files {
		pages[f.name] = string(f.data)
		all += string(f.data)
	}
	help, err := os.ReadFile("../../cmd/millrace/testdata/help.golden")
	if err != nil {
		t.Fatal(err)
	}
	root, _, _ := strings.Cut(string(help), "\n=== ")
	commands := regexp.MustCompile(`(?m)^  ([a-z]+)  +([A-Z].*)`).FindAllStringSubmatch(root, -1)
	if len(commands) < 10 {
		t.Fatalf("got the commands %v of the help, want more", commands)
	}
	for _, c := range commands {
		if page := pages["man/man1/millrace-"+c[1]+".1"]; c[1] != "completion" && !strings.Contains(page, `millrace\-`+c[1]+` \- `+c[2]+"\n") {
			t.Errorf("%s: got %.200q, want a page with %q", c[1], page, c[2])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^ {2,6}(?:-[a-z], )?--([a-z0-9-]+)`).FindAllStringSubmatch(string(help), -1) {
		if flag := `\-\-` + strings.ReplaceAll(m[1], "-", `\-`); !strings.Contains(all, flag) {
			t.Errorf("the manual lacks --%s", m[1])
		}
	}
}

func TestRoff_EscapesRequests(t *testing.T) {
	if got, want := roff(".a\n'b\nc-d\\"), "\\&.a\n\\&'b\nc\\-d\\e"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
