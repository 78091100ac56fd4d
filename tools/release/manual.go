package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// manual returns the manual: a page for each command of docs/commands.md, which a test compares with
// the program's help.
func (r *release) manual() (pages []file, err error) {
	text, err := os.ReadFile(filepath.Join(r.root, "docs", "commands.md"))
	if err != nil {
		return nil, err
	}
	summaries := map[string]string{}
	for _, m := range regexp.MustCompile("(?ms)^## (millrace[a-z ]*)\n\n```text\n(.*?)\n```$").FindAllStringSubmatch(string(text), -1) {
		command, help := m[1], m[2]
		for _, c := range regexp.MustCompile(`(?m)^  ([a-z]+) +([A-Z].*)$`).FindAllStringSubmatch(help, -1) {
			summaries[command+" "+c[1]] = c[2]
		}
		summary, known := summaries[command]
		if !known {
			summary, _, _ = strings.Cut(help, "\n")
		}
		name := strings.ReplaceAll(command, " ", "-")
		page := fmt.Sprintf(".TH %s 1 \"\" \"millrace %s\" \"Millrace\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n%s\n.fi\n",
			roff(strings.ToUpper(name)), roff(r.version), roff(name), roff(summary), roff(help))
		pages = append(pages, file{name: "man/man1/" + name + ".1", data: []byte(page), mode: 0o644})
	}
	if len(pages) == 0 {
		return nil, errors.New("docs/commands.md has no commands")
	}
	return pages, nil
}

// roff escapes backslashes, hyphens, and characters that would be requests at the beginning of a
// line.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
