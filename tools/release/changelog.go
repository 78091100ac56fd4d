package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kinds are the words that a fragment may begin with, in the order of their headings.
var kinds = []struct{ kind, heading string }{
	{"Security", "Security"}, {"Change", "Changes"}, {"Feature", "Features"}, {"Fix", "Fixes"}, {"Performance", "Performance"},
}

// writeChangelog moves the fragments of changes/unreleased to the head of CHANGELOG.md, as a section of their own.
func writeChangelog(version, root string, today time.Time) error {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+(-rc\.\d+)?$`).MatchString(version) {
		return fmt.Errorf("a version reads v0.1.0 or v0.1.0-rc.1, got %q", version)
	}
	page := filepath.Join(root, "CHANGELOG.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, released, _ := strings.Cut(string(text), "\n## ")
	if released != "" {
		released = "\n## " + released
	}
	paths, err := filepath.Glob(filepath.Join(root, "changes", "unreleased", "*"))
	if err != nil {
		return err
	}
	if len(paths) == 0 || strings.Contains(released, "\n## "+version+",") {
		return fmt.Errorf("%s: got %d changes that are not released, want some, and no section of that version", version, len(paths))
	}
	section, err := sectionOf(version, paths, today)
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(head+section+released), 0o644); err != nil {
		return err
	}
	for _, p := range paths {
		if err := os.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// sectionOf joins the fragments, each below the heading of its kind.
func sectionOf(version string, paths []string, today time.Time) (string, error) {
	changes := map[string][]string{}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return "", err
		}
		title, body, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		kind, title, _ := strings.Cut(title, ": ")
		known := slices.ContainsFunc(kinds, func(k struct{ kind, heading string }) bool { return k.kind == kind })
		if !known || title == "" || strings.TrimSpace(body) == "" {
			return "", fmt.Errorf("%s: want a kind, a title and sentences, as changes/template/pull says", p)
		}
		changes[kind] = append(changes[kind], fmt.Sprintf("- **%s.** %s\n", strings.TrimSuffix(title, "."), strings.Join(strings.Fields(body), " ")))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s, %s\n", version, today.Format(time.DateOnly))
	for _, k := range kinds {
		if len(changes[k.kind]) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n%s", k.heading, strings.Join(changes[k.kind], ""))
		}
	}
	return b.String(), nil
}
