package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// listed is the output of `go list` for a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// source is a parsed package with its types.
type source struct {
	listed
	set   *token.FileSet
	files []*ast.File // one per file in GoFiles
	texts [][]byte
	info  *types.Info
}

// load parses a package of the module in root and type-checks it, with the compiler's export data
// of its imports.
func load(root, pattern string) (*source, error) {
	packages, err := list(root, pattern)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	// go list prints dependencies first.
	s := &source{listed: packages[len(packages)-1], set: token.NewFileSet()}
	s.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	for _, name := range s.GoFiles {
		text, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(s.set, filepath.Join(s.Dir, name), text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		s.files, s.texts = append(s.files, f), append(s.texts, text)
	}
	exported := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	checker := types.Config{Importer: importer.ForCompiler(s.set, "gc", exported)}
	if _, err := checker.Check(s.ImportPath, s.set, s.files, s.info); err != nil {
		return nil, fmt.Errorf("check types of %s: %w", s.ImportPath, err)
	}
	return s, nil
}

func list(root, pattern string) (packages []listed, err error) {
	text, err := output(root, "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", pattern)
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
}

// output runs a command and returns its standard output. The error contains its standard error.
func output(dir string, command ...string) ([]byte, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // a signal ends it with the process group
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w: %s", command[:min(3, len(command))], err, errs.String())
	}
	return text, nil
}

// Kinds of edits, in the order in which they apply at the same offset.
const (
	ends = iota
	begins
	replaces
)

// edit inserts a text into a file, or replaces the text at an offset.
type edit struct {
	offset, kind int
	depth        int // depth of the node below the file
	text         string
	replaced     int // length of the replaced text
}

// apply applies all edits to text. If two nodes begin at the same offset, the outer one begins
// first and ends last.
func apply(text []byte, edits []edit) []byte {
	order := func(e edit) int {
		if e.kind == ends {
			return -e.depth
		}
		return e.depth
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		return slices.Compare([]int{a.offset, a.kind, order(a)}, []int{b.offset, b.kind, order(b)})
	})
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.offset]...), e.text...)
		at = e.offset + e.replaced
	}
	return append(out, text[at:]...)
}
