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

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/naming"
	"github.com/millrace-data/millrace/internal/objstore"
)

// file is one regular file in the state in which the walk found it.
type file struct {
	root *os.Root
	path string // slash-separated path below root
	name string // name in the shard
	info fs.FileInfo
	text string // content of a member without a file; empty: the member is a file
}

// size returns the length of the content.
func (f *file) size() int64 {
	if f.text != "" {
		return int64(len(f.text))
	}
	return f.info.Size()
}

func byName(a, b file) int { return cmp.Compare(a.name, b.name) }

// where returns the file's path for messages.
func (f *file) where() string { return filepath.Join(f.root.Name(), filepath.FromSlash(f.path)) }

// sources is the result of a walk. Every file is later opened relative to its root, so that a
// symbolic link created between walk and read cannot lead out of a source.
type sources struct {
	roots   []*os.Root
	files   []file
	special []string // entries that are neither directories nor regular files; they cause an error
	skipped []string
	hidden  []string // hidden files, which are excluded
}

func (s *sources) close() {
	for _, r := range s.roots {
		r.Close() // opened for reading only
	}
}

// named is the largest number of names in a message. The message counts the remaining names.
const named = 5

// list joins names for a message.
func list(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}

// walk finds the files of all sources. The caller must close the returned sources, even after an
// error.
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

// add walks one source. It counts and excludes hidden files, as format.Hidden defines them. The
// index command excludes hidden objects in the same way.
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
		dir, base = filepath.Dir(source), filepath.Base(source)
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
			return fs.SkipDir // Millrace's own objects, in a directory that was indexed in place
		case d.IsDir() || strings.HasPrefix(p, ownFiles) && !strings.Contains(p, "/"):
			return nil
		}
		return s.visit(root, p, opt)
	})
}

// visit adds one entry that is not a directory. It does not follow links.
func (s *sources) visit(root *os.Root, p string, opt Options) error {
	if !naming.Matches(opt.Match, p) {
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
	// A walk returns only valid paths, and careful readers reject a shard with another name.
	// The check also rejects names that are not valid UTF-8, which neither PAX nor JSON can
	// store.
	if !fs.ValidPath(p) || path.IsAbs(p) || strings.ContainsRune(p, 0) {
		return fmt.Errorf("name %q is unsafe or not UTF-8", f.where())
	}
	if len(p) > format.MaxKey {
		return fmt.Errorf("name %.200q... has %d bytes: at most %d can be indexed", p, len(p), format.MaxKey)
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
