package pack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// file is one regular file as it was when the sources were walked.
type file struct {
	root *os.Root
	path string // below root
	name string // in the shard
	info fs.FileInfo
	text string // the content of a member that is no file; empty: it is one
}

// size of the content.
func (f *file) size() int64 {
	if f.text != "" {
		return int64(len(f.text))
	}
	return f.info.Size()
}

func byName(a, b file) int { return cmp.Compare(a.name, b.name) }

// where names the file for a message.
func (f *file) where() string { return filepath.Join(f.root.Name(), filepath.FromSlash(f.path)) }

// sources is what a walk found. Every file is opened below its root later, so that no symbolic link that appears
// between walk and read leads out of a source.
type sources struct {
	roots   []*os.Root
	files   []file
	special []string // refused: neither a directory nor a regular file
	skipped []string
	hidden  []string // left out
}

func (s *sources) close() {
	for _, r := range s.roots {
		r.Close() // opened for reading only
	}
}

// named is how many culprits a message names before it only counts.
const named = 5

// list joins names for a message.
func list(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}

// walk finds the files of all sources. The caller closes what it returns, after an error too.
func walk(ctx context.Context, from []string, opt Options) (*sources, error) {
	s := &sources{}
	if len(from) == 0 {
		return s, errors.New("pack: no source")
	}
	for _, source := range from {
		if err := s.add(ctx, source, opt); err != nil {
			return s, fmt.Errorf("pack %s: %w", source, err)
		}
	}
	if opt.SkipSpecial {
		s.skipped, s.special = s.special, nil
	}
	if len(s.special) > 0 {
		return s, fmt.Errorf("pack: not a regular file: %s", list(s.special))
	}
	return s, nil
}

// add walks one source. What format.Hidden calls hidden is counted and left out, as index leaves it out of what lies in a store.
func (s *sources) add(ctx context.Context, source string, opt Options) error {
	info, err := os.Stat(source)
	if errors.Is(err, fs.ErrNotExist) {
		return objstore.ErrNotFound
	}
	if err != nil {
		return err
	}
	dir, base := source, "."
	if !info.IsDir() {
		dir, base = filepath.Split(filepath.Clean(source))
		if dir == "" {
			dir = "."
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	s.roots = append(s.roots, root)
	if base != "." {
		return s.visit(root, base, opt)
	}
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case d.IsDir() && p == strings.TrimSuffix(own, "/"):
			return fs.SkipDir // the index of a folder that was indexed where it lies
		case d.IsDir() || strings.HasPrefix(p, ownFiles) && !strings.Contains(p, "/"):
			return nil
		}
		return s.visit(root, p, opt)
	})
}

// visit takes one entry that is not a directory, without following it if it is a link.
func (s *sources) visit(root *os.Root, p string, opt Options) error {
	if !build.Matches(opt.Match, p) {
		return nil
	}
	if !opt.Hidden && format.Hidden(p) {
		s.hidden = append(s.hidden, p)
		return nil
	}
	info, err := root.Lstat(filepath.FromSlash(p))
	if err != nil {
		return err
	}
	f := file{root: root, path: p, name: p, info: info}
	if !info.Mode().IsRegular() {
		s.special = append(s.special, fmt.Sprintf("%q (%s)", f.where(), kind(info.Mode())))
		return nil
	}
	// A walk cannot yield any other name; a shard that held one would be refused by every careful reader. The
	// same check refuses names that are not valid UTF-8, which neither PAX nor JSON can carry.
	if !fs.ValidPath(p) || path.IsAbs(p) || strings.ContainsRune(p, 0) {
		return fmt.Errorf("unsafe or not UTF-8: name %q", f.where())
	}
	if len(p) > format.MaxKey {
		return fmt.Errorf("name %.200q...: %d bytes long: at most %d can be indexed", p, len(p), format.MaxKey)
	}
	s.files = append(s.files, f)
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "special file"
}
