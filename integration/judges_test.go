package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEachFormatHasWritersAndAJudge compares the table in docs/dev/testing.md with the formats of
// docs/formats.md, with the data sets that the tests create, and with the tests. Each format has
// two writers, or its row states that no second writer exists.
func TestEachFormatHasWritersAndAJudge(t *testing.T) {
	rows := judges(t)
	for _, m := range regexp.MustCompile("(?m)^\\| \\[`(\\w+)`\\]\\(#").FindAllStringSubmatch(readText(t, "../docs/formats.md"), -1) {
		if rows["`"+m[1]+"`"] == nil {
			t.Errorf("docs/dev/testing.md: got no row of the format %s", m[1])
		}
	}
	tests := testNames(t)
	for format, cells := range rows {
		for _, name := range quoted(cells[3]) {
			if !slices.Contains(tests, name) {
				t.Errorf("docs/dev/testing.md: %s: got the test %s, which is not there", format, name)
			}
		}
		if writers := strings.Count(cells[1], "(`"); writers < 2 && !strings.Contains(cells[1], "its only writer") && !slices.Contains([]string{"`files`", "gzip and zstd"}, format) {
			t.Errorf("docs/dev/testing.md: %s: got %d writers, want two, or that there is one alone", format, writers)
		}
	}
	told := map[string][]string{} // by test
	for _, cells := range rows {
		for _, test := range quoted(cells[3]) {
			told[test] = append(told[test], quoted(cells[1])...)
		}
	}
	made := map[string]bool{}
	for _, c := range plainCases {
		made[c.name] = true
	}
	sameNames(t, told["TestFilesAsTheirOwnLibrariesReadThem"], made)
	made = map[string]bool{}
	for _, name := range columnar {
		made[name] = true
	}
	sameNames(t, told["TestRowsAsPyarrowReadsThem"], made)
}

// sameNames compares the data sets that the table lists for a test with those that the test
// creates.
func sameNames(t *testing.T, told []string, made map[string]bool) {
	t.Helper()
	for _, name := range told {
		if !made[name] {
			t.Errorf("docs/dev/testing.md: got the data set %s, which no test makes", name)
		}
	}
	for name := range made {
		if !slices.Contains(told, name) {
			t.Errorf("docs/dev/testing.md: want the data set %s in the table", name)
		}
	}
}

// judges returns the rows of the table by their first cells.
func judges(t *testing.T) map[string][]string {
	t.Helper()
	_, section, found := strings.Cut(readText(t, "../docs/dev/testing.md"), "\n## Who writes, and who judges\n")
	if !found {
		t.Fatal("docs/dev/testing.md: got no section of writers and judges")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| format") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells
	}
	return rows
}

// quoted returns the texts in backticks.
func quoted(cell string) (names []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}

// testNames returns the names of all tests of this package.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			names = append(names, m[1])
		}
	}
	return names
}
