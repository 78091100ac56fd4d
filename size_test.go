package millrace_test

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of the product's size, which is close to them: new code usually requires the removal of old
// code. CONTRIBUTING.md describes when to raise a limit. Lower a limit when less is needed.
const (
	maxGoLines       = 78_500 // without blank lines and comments
	maxPythonLines   = 7_300  // without blank lines, comments and docstrings
	maxPythonModules = 37
	maxLines         = 600 // of a file, with blank lines, comments and tests
	maxFunction      = 32  // lines of a function; 95 of 100 functions are shorter
	minComments      = 9.5 // comments per 100 lines of Go that are not blank
)

// TestSizeOfTheProduct counts the product: the Python client, and all Go code except tests,
// packages that only tests import, integration and tools. `make size` prints the figures.
func TestSizeOfTheProduct(t *testing.T) {
	goLines, comments := 0, 0
	rooms := map[string]int{}
	var functions, files []int
	for _, s := range sources(t) {
		if s.test || nested(s.dir) || testsOnly(s.dir) {
			continue
		}
		code, remarks := countGo(s)
		goLines, comments = goLines+code, comments+remarks
		top, _, _ := strings.Cut(s.path, "/")
		rooms[top] += code
		files = append(files, s.lines)
		functions = append(functions, functionLines(s)...)
	}
	python, modules := countPython(t)
	slices.Sort(functions)
	slices.Sort(files)
	p95 := functions[len(functions)*95/100]
	share := 100 * float64(comments) / float64(goLines+comments)
	for _, room := range slices.Sorted(maps.Keys(rooms)) {
		t.Logf("%-12s %6d", room, rooms[room])
	}
	t.Logf("Go %d lines, comments %.1f %%; functions: median %d, p95 %d, longest %d lines; files: median %d, longest %d lines",
		goLines, share, functions[len(functions)/2], p95, functions[len(functions)-1], files[len(files)/2], files[len(files)-1])
	t.Logf("Python %d lines in %d modules", python, modules)
	atMost(t, "lines of Go", goLines, maxGoLines)
	atMost(t, "lines of Python", python, maxPythonLines)
	atMost(t, "modules of Python", modules, maxPythonModules)
	atMost(t, "lines of a function, p95", p95, maxFunction)
	if share < minComments {
		t.Errorf("comments: got %.1f %% of the lines, want at least %v %%", share, minComments)
	}
}

func TestFilesStayShort(t *testing.T) {
	for _, s := range sources(t) {
		if s.lines > maxLines {
			t.Errorf("%s: got %d lines, want at most %d", s.path, s.lines, maxLines)
		}
	}
}

func atMost(t *testing.T, what string, got, want int) {
	t.Helper()
	if got > want {
		t.Errorf("%s: got %d, want at most %d: delete code that the change makes unnecessary; if nothing can go, raise the limit in "+
			"size_test.go in a commit of its own with the reason, and a maintainer decides", what, got, want)
	}
}

// countGo returns the number of lines of a file with code, and the number with only a comment.
func countGo(s source) (code, comments int) {
	files := token.NewFileSet()
	file := files.AddFile(s.path, files.Base(), len(s.text))
	var scan scanner.Scanner
	scan.Init(file, s.text, nil, scanner.ScanComments)
	held, remarked := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, lit := scan.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		lines := held
		if tok == token.COMMENT {
			lines = remarked
		}
		first := file.Line(pos)
		for i := range 1 + strings.Count(lit, "\n") {
			lines[first+i] = true
		}
	}
	for line := range remarked {
		if !held[line] {
			comments++
		}
	}
	return len(held), comments
}

// functionLines returns the length of each function of a file.
func functionLines(s source) (lines []int) {
	for _, decl := range s.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			lines = append(lines, s.set.Position(f.End()).Line-s.set.Position(f.Pos()).Line+1)
		}
	}
	return lines
}

// countPython returns the number of modules of the Python client, and of their lines of code.
// Docstrings and comments do not count.
func countPython(t *testing.T) (lines, modules int) {
	t.Helper()
	err := filepath.WalkDir("client/python/millrace", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(p) != ".py" {
			return err
		}
		modules++
		inside, doc := false, false // inside a string in triple quotes; it is a docstring
		for line := range strings.Lines(string(read(t, p))) {
			line = strings.TrimSpace(line)
			if !inside {
				doc = strings.HasPrefix(line, `"""`)
			}
			if line != "" && !doc && (inside || !strings.HasPrefix(line, "#")) {
				lines++
			}
			if strings.Count(line, `"""`)%2 == 1 {
				inside = !inside
			}
			doc = doc && inside
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, modules
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
