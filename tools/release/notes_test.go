package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteNotes_TakesTheSectionOfTheVersion(t *testing.T) {
	const page = "# Changelog\n\nNewest first.\n\n## 0.2.0\n\n### Order\n\n- New.\n\n## 0.1.0\n\nThe first release.\n\n## 0.0.9\n"
	for _, tc := range []struct{ version, notes, refusal string }{
		{version: "0.2.0", notes: "### Order\n\n- New.\n"},
		{version: "0.1.0", notes: "The first release.\n"},
		{version: "0.1.0-rc.1", notes: "The first release.\n"},
		{version: "0.0.0-20250615150640-3f2a1b4c5d6e"},
		{version: "0.0.9", refusal: `no section "## 0.0.9"`}, // without text
		{version: "0.1", refusal: `no section "## 0.1"`},
	} {
		r := &release{root: t.TempDir(), out: t.TempDir(), version: tc.version}
		if err := os.WriteFile(filepath.Join(r.root, "CHANGELOG.md"), []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		err := r.writeNotes()
		if (err != nil) != (tc.refusal != "") || err != nil && !strings.Contains(err.Error(), tc.refusal) {
			t.Errorf("%s: got error %v, want %q", tc.version, err, tc.refusal)
		}
		got, _ := os.ReadFile(filepath.Join(r.out, "millrace-"+tc.version+"-notes.md"))
		if string(got) != tc.notes {
			t.Errorf("%s: got notes %q, want %q", tc.version, got, tc.notes)
		}
	}
}
