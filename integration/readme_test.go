package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeWords is the maximum number of words in the README, code included.
const readmeWords = 650

func TestReadmeLength(t *testing.T) {
	if n := len(strings.Fields(readText(t, "../README.md"))); n > readmeWords {
		t.Errorf("README.md: got %d words, want at most %d: move some to docs", n, readmeWords)
	}
}

// TestReadmeCommands runs the commands of the README, except for three changes. `make demo` runs
// first, and packs a few files instead of Go's source tree. `make smoke` checks that gateway. The
// test only reads the recipe of `make test`, because that command runs this test.
func TestReadmeCommands(t *testing.T) {
	commands := consoleCommands(readText(t, "../README.md"))
	dir := t.TempDir()
	writeSamples(t, filepath.Join(dir, "files"), 18*64) // 18 batches of 64, because the README reads batch 17
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	demo := strings.NewReplacer("go run ./cmd/millrace", "millrace", `"$(go env GOROOT)/src"`, "files").Replace(recipe(t, "demo"))
	typed := []command{
		{text: demo + " --listen 127.0.0.1:8080 > demo.log 2>&1 &"},
		{text: "curl -s -o ready.log --retry 50 --retry-connrefused --retry-delay 1 http://127.0.0.1:8080/readyz"},
	}
	var targets []string
	for _, c := range commands {
		target, isMake := strings.CutPrefix(c.text, "make ")
		if !isMake {
			if len(c.want) == 0 { // the README omits its output
				c.want = []string{"..."}
			}
			typed = append(typed, c)
			continue
		}
		target = strings.Fields(target)[0]
		targets = append(targets, target)
		text := recipe(t, target)
		if target == "smoke" {
			typed = append(typed, command{line: c.line, text: "(cd $root && " + text + ") > smoke.log 2>&1 || cat smoke.log"})
		}
	}
	if want := []string{"demo", "smoke", "test"}; !slices.Equal(targets, want) {
		t.Errorf("README.md: got targets %q, want %q", targets, want)
	}
	sh := startShell(t, dir)
	sh.run("root=" + root)
	sh.follow(t, "README.md", typed, freePorts(t, "8080"))
}

// writeSamples writes n small files.
func writeSamples(t *testing.T, dir string, n int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%04d.txt", i)), []byte(fmt.Sprintln(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// recipe returns the commands of a target of the Makefile.
func recipe(t *testing.T, target string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "--dry-run", "--no-print-directory", "-C", "..", target)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // set by the make that runs this test
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") || strings.HasPrefix(v, "URL=")
	})
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) == 0 {
		t.Fatalf("make %s: %v\n%s", target, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestReadmeNamesTargets checks that the make targets in the text of the README and the quickstart
// exist.
func TestReadmeNamesTargets(t *testing.T) {
	for _, page := range []string{"../README.md", "../docs/quickstart.md"} {
		found := regexp.MustCompile("`make ([a-z-]+)").FindAllStringSubmatch(readText(t, page), -1)
		if len(found) == 0 {
			t.Errorf("%s: got no target of make", page)
		}
		for _, m := range found {
			recipe(t, m[1])
		}
	}
}

// TestReadmeLinksLead checks that every page and picture that the README links to exists.
func TestReadmeLinksLead(t *testing.T) {
	links := 0
	for _, part := range strings.Split(readText(t, "../README.md"), "](")[1:] {
		target, _, _ := strings.Cut(part, ")")
		target, _, _ = strings.Cut(target, "#")
		if strings.Contains(target, "://") {
			continue
		}
		links++
		if _, err := os.Stat(filepath.Join("..", target)); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
	if links < 5 {
		t.Errorf("links in the README: got %d, want several", links)
	}
}
