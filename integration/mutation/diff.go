package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// changedLines returns the lines in a package's files that differ from a commit.
func changedLines(root, rev, dir string) (map[string]map[int]bool, error) {
	text, err := output(root, "git", "diff", "-U0", "--no-renames", "--no-ext-diff", rev, "--", dir)
	if err != nil {
		return nil, fmt.Errorf("lines changed since %s: %w", rev, err)
	}
	changed, file := map[string]map[int]bool{}, ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "+++ b/"); ok {
			file = strings.TrimSpace(path)
			if filepath.Dir(file) != filepath.FromSlash(dir) {
				file = "" // the file belongs to another package
			}
		}
		found := hunk.FindStringSubmatch(line)
		if found == nil || file == "" {
			continue
		}
		first, _ := strconv.Atoi(found[1])
		count := 1
		if found[2] != "" {
			count, _ = strconv.Atoi(found[2])
		}
		name := filepath.Base(file)
		if changed[name] == nil {
			changed[name] = map[int]bool{}
		}
		for i := range count {
			changed[name][first+i] = true
		}
	}
	return changed, nil
}
