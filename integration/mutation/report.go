package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report prints the result of a package, and writes it to a file if requested. ok is false if the
// score decreased, or if an unlisted mutant in a changed line survives.
func report(o *options, t target, r *results, all, chosen []mutant, left int, committed *score) (ok bool, err error) {
	commit, err := output(o.root, "git", "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return false, err
	}
	s := count(t.path, strings.TrimSpace(string(commit)), chosen, r.Verdicts, committed)
	ok = true
	for _, m := range chosen {
		v := r.Verdicts[m.name]
		survives := v.Result == lived || v.Result == uncovered
		if isNew := survives && committed.reason(m.name) == ""; isNew || o.show {
			fmt.Printf("%-9s %s/%s:%d: %s  %s\n", v.Result, t.path, m.file, m.line, m.name, v.By)
			ok = ok && !(isNew && o.diff != "")
		}
	}
	total := fmt.Sprintf("operators %v; dropped statements %v", s.Operators, s.Drops)
	if left > 0 {
		total += fmt.Sprintf("; %d not judged", left)
	}
	fmt.Printf("%s: %s\n", t.path, total)
	if err := summarize(o.root, t.path, total); err != nil {
		return false, err
	}
	if whole := len(chosen) == len(all) && left == 0; o.write {
		if !whole {
			return false, errors.New("-write requires a run of all mutants")
		}
		if changed, err := output(o.root, "git", "status", "--porcelain", "--", t.path); err != nil || len(changed) > 0 {
			return false, fmt.Errorf("-write requires a committed package: %s %w", changed, err)
		}
		return true, s.write(o.root)
	} else if whole && committed.Commit != "" {
		ok = ok && s.Operators.percent() >= committed.Operators.percent() && s.Drops.percent() >= committed.Drops.percent()
	}
	return ok, nil
}

// summarize adds a line to the totals that each tier prints at its end.
func summarize(root, pkg, total string) error {
	f, err := os.OpenFile(filepath.Join(root, "bin", "test-summary"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%-18s %s: %s\n", "mutation", pkg, total)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
