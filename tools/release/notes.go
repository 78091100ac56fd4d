package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeNotes writes the section of CHANGELOG.md for this version. A version without a tag, such as
// 0.0.0-20250615150640-3f2a1b4c5d6e, needs no section. A release candidate has the section of its
// release.
func (r *release) writeNotes() error {
	page, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	version, _, before := strings.Cut(r.version, "-")
	notes := section(string(page), version)
	switch {
	case notes != "":
		return r.write("millrace-"+r.version+"-notes.md", []byte(notes))
	case before:
		return nil
	}
	return fmt.Errorf("CHANGELOG.md has no section %q: add the release notes and tag the commit that has them", "## "+version)
}

// section returns the text below a heading of a page, or "" if the heading is missing or has no
// text.
func section(page, heading string) string {
	_, text, _ := strings.Cut(page, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	return text + "\n"
}
