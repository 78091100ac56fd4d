package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const pageHead = `# Mutation scores

For maintainers: how many small changes of the code the unit tests of each package notice. ` + "`make mutation`" + ` measures
this page; a test holds that it says what ` + "`integration/mutation/scores`" + ` says. [Testing](testing.md#mutation) explains how.

The score is killed / (killed + lived + uncovered). A mutant lives when all tests that reach it pass, and is uncovered when
no test reaches it. An equivalent mutant behaves as the original does; it is left out of the score, with a reason in the
package's file of scores. The goal is 85 % of the operators and 95 % of the dropped statements in every package.
`

const pageOfPython = "`python/...` are modules of the Python client, with mutmut's operators: `make mutation-python` measures them.\n"

// page returns the text of docs/dev/mutation.md.
func page(root string) (string, error) {
	var text, missing strings.Builder
	text.WriteString(pageHead)
	var scores []*score
	for _, path := range scored() {
		s, err := readScore(root, path)
		if err != nil {
			return "", err
		}
		if s.Commit == "" {
			fmt.Fprintf(&missing, "- `%s`\n", path)
			continue
		}
		scores = append(scores, s)
	}
	table(&text, "Operators", scores, func(s *score) counts { return s.Operators })
	text.WriteString("\n" + pageOfPython)
	for _, s := range scores {
		if s.Sample > 1 {
			fmt.Fprintf(&text, "\nOf `%s` one of %d mutants is judged, chosen by a hash of its name.", s.Package, s.Sample)
		}
	}
	text.WriteString("\n")
	table(&text, "Dropped statements", scores, func(s *score) counts { return s.Drops })
	text.WriteString("\nA dropped statement is a call, deferred or not, of a function whose name begins with one of: " +
		strings.Join(releases, ", ") + ".\n")
	text.WriteString("\n## Not measured\n\n")
	if missing.Len() > 0 {
		text.WriteString("Packages without a score:\n\n" + missing.String() + "\n")
	}
	text.WriteString("Tests that no mutant runs, since the tests of a package may take 5 s together:\n\n")
	text.WriteString("| package | test | reason |\n|---|---|---|\n")
	for _, t := range targets {
		for _, slow := range slices.Sorted(maps.Keys(t.slow)) {
			fmt.Fprintf(&text, "| `%s` | `%s` | %s |\n", t.path, slow, t.slow[slow])
		}
	}
	return text.String(), nil
}

func table(text *strings.Builder, title string, scores []*score, of func(*score) counts) {
	fmt.Fprintf(text, "\n## %s\n\n", title)
	text.WriteString("| package | mutants | killed | lived | uncovered | equivalent | score | measured at |\n")
	text.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, s := range scores {
		c := of(s)
		if n := c.judged() + c.Equivalent; n > 0 {
			fmt.Fprintf(text, "| `%s` | %d | %d | %d | %d | %d | %.1f %% | `%s` |\n",
				s.Package, n, c.Killed, c.Lived, c.Uncovered, c.Equivalent, c.percent(), s.Commit)
		}
	}
}

func writePage(root string) error {
	text, err := page(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "dev", "mutation.md"), []byte(text), 0o644)
}
