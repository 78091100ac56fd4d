package millrace_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/millrace-data/millrace"

// room is one row of the floor plan: the packages that a package may import outside its tests.
// Paths in ours are relative to the module. A row also applies to lower packages without a row; the
// row of a path that ends in "/*" applies only to those. A path in ours that ends in "/." excludes
// lower packages.
type room struct {
	ours    []string
	outside []string // path prefixes of libraries outside the standard library
	never   []string // standard packages (path prefixes) that the package must not import, since they would bypass an interface
}

// source is one parsed Go file.
type source struct {
	path  string // relative to the module root, with slashes
	dir   string
	test  bool
	text  []byte
	lines int
	set   *token.FileSet
	file  *ast.File
}

// sources returns every Go file of the repository, nested modules included. All tests share one
// parse.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("sources found: got %d, want the whole repository", len(all))
	}
	return all
}

var parsed = sync.OnceValues(func() ([]source, error) {
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(p)
		all = append(all, source{
			path: slashed, dir: path.Dir(slashed), test: strings.HasSuffix(name, "_test.go"),
			text: text, lines: bytes.Count(text, []byte("\n")), set: set, file: f,
		})
		return nil
	})
	return all, err
})

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// nested reports whether dir belongs to a nested module, whose imports are not restricted.
func nested(dir string) bool {
	return under(dir, "integration") || under(dir, "tools")
}

func under(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

func underAny(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(p, prefix) || prefix == p+"/." })
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// rowFor returns the path of the row for dir: its own, or that of the nearest parent; "" if none.
func rowFor(plan map[string]room, dir string) string {
	if _, ok := plan[dir]; ok {
		return dir
	}
	for d := path.Dir(dir); d != "."; d = path.Dir(d) {
		for _, row := range []string{d + "/*", d} {
			if _, ok := plan[row]; ok {
				return row
			}
		}
	}
	return ""
}

func TestImportsFollowTheFloorPlan(t *testing.T) {
	plan := floorPlan()
	for _, s := range sources(t) {
		if s.test || nested(s.dir) {
			continue
		}
		row := rowFor(plan, s.dir)
		if row == "" {
			t.Errorf("%s: package %s has no row in floorPlan() of arch_test.go", s.path, s.dir)
			continue
		}
		for _, imp := range s.imports() {
			if fault := plan[row].fault(imp); fault != "" {
				t.Errorf("%s: imports %s, but row %q of floorPlan() in floorplan_test.go %s: if the package needs it, allow it in a row %q",
					s.path, imp, row, fault, s.dir)
			}
		}
	}
}

// floorOf returns the floor of a top-level folder. Folders import only from lower floors.
func floorOf(dir string) int {
	top, _, _ := strings.Cut(dir, "/")
	for i, floor := range [][]string{
		{"shuffle", "client", "internal"},
		{"chunkindex", "cluster", "s3backend"},
		{"datapath"},
		{"gateway"}, // of datapath, it may import only datapath/batch, the types of a batch's bytes
		{"cmd"},
	} {
		if slices.Contains(floor, top) {
			return 1 + i
		}
	}
	return 0
}

// testsOnly reports whether only tests may import the packages of a folder.
func testsOnly(dir string) bool {
	return under(dir, "internal/testing") || under(dir, "chunkindex/testing")
}

func TestImportsRunDownTheFloors(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || nested(s.dir) || s.dir == "." {
			continue
		}
		if floorOf(s.dir) == 0 {
			t.Errorf("%s: its folder has no floor", s.path)
		}
		for _, imp := range s.imports() {
			rel, ours := strings.CutPrefix(imp, module+"/")
			top, _, _ := strings.Cut(rel, "/")
			if testsOnly(rel) && !testsOnly(s.dir) {
				t.Errorf("%s: imports %s, which only tests may import", s.path, imp)
			}
			if ours && !under(s.dir, top) && (floorOf(rel) == 0 || floorOf(rel) >= floorOf(s.dir)) {
				t.Errorf("%s: imports %s, which is on no lower floor", s.path, imp)
			}
		}
	}
}

// TestServing_LinksNoScanner: packages that serve batches must not import scanners, even
// indirectly.
func TestServing_LinksNoScanner(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imports[s.dir] = append(imports[s.dir], s.imports()...)
		}
	}
	for _, served := range []string{"gateway", "datapath", "cmd/internal/node"} {
		linked := map[string]bool{served: true}
		for todo := []string{served}; len(todo) > 0; todo = todo[1:] {
			for _, imp := range imports[todo[0]] {
				if rel, ours := strings.CutPrefix(imp, module+"/"); ours && !linked[rel] {
					linked[rel] = true
					todo = append(todo, rel)
				}
			}
		}
		if !linked["chunkindex"] {
			t.Errorf("%s: got no reader of indexes among %d packages", served, len(linked))
		}
		for rel := range linked {
			if under(rel, "chunkindex/build") || under(rel, "chunkindex/format") && rel != "chunkindex/format" {
				t.Errorf("%s links %s, which only indexing needs", served, rel)
			}
		}
	}
}

// fault returns the reason why a package with this row may not import imp, "" if it may.
func (r room) fault(imp string) string {
	switch {
	case under(imp, module):
		rel := strings.TrimPrefix(strings.TrimPrefix(imp, module), "/")
		if rel == "" || !underAny(rel, r.ours) {
			return fmt.Sprintf("lacks %q in ours", rel)
		}
	case standard(imp):
		if underAny(imp, r.never) {
			return "excludes it in never"
		}
	case !underAny(imp, r.outside):
		return "lacks it in outside"
	}
	return ""
}

func TestFloorPlanRefusesWrongImports(t *testing.T) {
	plan := floorPlan()
	for _, c := range []struct{ dir, imp string }{
		{"shuffle", "time"},
		{"shuffle", module + "/chunkindex"},
		{"chunkindex/format/webdataset", "net/http"},
		{"chunkindex/format/tokens", module + "/chunkindex/format/records"},
		{"chunkindex/framing", module + "/chunkindex/format/mds"},
		{"gateway/body", module + "/chunkindex/format/mds"},
		{"chunkindex", module + "/datapath/chunkcache"},
		{"chunkindex", module + "/chunkindex/format/mds"},
		{"chunkindex", module + "/chunkindex/build"},
		{"gateway", module + "/datapath"},
		{"gateway", module + "/s3backend"},
		{"client", "golang.org/x/sync/errgroup"},
		{"datapath/chunkcache", module + "/internal/objstore"},
		{"internal/budget", module + "/shuffle"},
	} {
		row := rowFor(plan, c.dir)
		if row == "" || plan[row].fault(c.imp) == "" {
			t.Errorf("%s importing %s: got no fault, want one", c.dir, c.imp)
		}
	}
	for dir, want := range map[string]string{
		"newroom": "", "newroom/inner": "", ".": ".",
		"chunkindex/format": "chunkindex/format", "chunkindex/format/new": "chunkindex/format/*", "chunkindex/format/zip/inner": "chunkindex/format/zip",
	} {
		if got := rowFor(plan, dir); got != want {
			t.Errorf("%s: got the row %q, want %q", dir, got, want)
		}
	}
}

func TestSomeLibrariesLiveInOnePackage(t *testing.T) {
	for _, s := range sources(t) {
		for _, imp := range s.imports() {
			for lib, home := range onlyHere() {
				if under(imp, lib) && !under(s.dir, home) && !testsOnly(s.dir) {
					t.Errorf("%s: imports %s, which lives in %s alone", s.path, imp, home)
				}
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if _, ok := comments[s.dir]; !ok {
			comments[s.dir] = nil
		}
		if s.file.Doc != nil {
			comments[s.dir] = append(comments[s.dir], s.path)
		}
	}
	for dir, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s: package comments in %v, want exactly one", dir, files)
		}
	}
}

func TestNoPackageHasAnEmptyName(t *testing.T) {
	vague := []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "base"}
	for _, s := range sources(t) {
		if slices.Contains(vague, s.file.Name.Name) || slices.Contains(vague, path.Base(s.dir)) {
			t.Errorf("%s: package %s says nothing about what it holds", s.path, s.file.Name.Name)
		}
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init() runs before anybody asked", s.path)
			}
		}
	}
}
