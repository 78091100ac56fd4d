package dirstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	return s.ListLinks(ctx, prefix, visit, func(string, bool) {})
}

// ListLinks implements objstore.LinkLister.
func (s *Store) ListLinks(ctx context.Context, prefix string, visit func(objstore.Object) error, passed func(key string, dir bool)) error {
	dir := ""
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir = prefix[:i]
	}
	if dir != "" && objstore.CheckKey(dir) != nil {
		return nil // no key begins with the prefix
	}
	s.renew()
	w := walk{store: s, prefix: prefix, visit: visit, passed: passed}
	err := w.dir(ctx, dir)
	if err != nil && w.visitErr == nil {
		return fmt.Errorf("list %q: %w", prefix, err)
	}
	return err
}

type walk struct {
	store    *Store
	prefix   string
	visit    func(objstore.Object) error
	passed   func(key string, dir bool)
	visitErr error         // error of visit, to be returned unchanged
	above    []fs.FileInfo // the open directories from the root to here, if links to directories are followed
}

// dir visits the objects below the directory name, in byte order of the keys.
func (w *walk) dir(ctx context.Context, name string) error {
	if w.store.links {
		info, err := w.store.statFile(name)
		if err != nil {
			return w.gone(err)
		}
		if slices.ContainsFunc(w.above, func(d fs.FileInfo) bool { return os.SameFile(d, info) }) {
			w.passed(name, true) // the link leads back to a directory that is being listed
			return nil
		}
		w.above = append(w.above, info)
		defer func() { w.above = w.above[:len(w.above)-1] }()
	}
	entries, err := w.entries(name)
	if err != nil {
		return err
	}
	for _, key := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if sub, ok := strings.CutSuffix(key, "/"); ok {
			if err := w.dir(ctx, sub); err != nil {
				return err
			}
			continue
		}
		if err := w.file(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// gone returns nil for the error of a directory that does not exist or is a file, and the mapped
// error otherwise.
func (w *walk) gone(err error) error {
	if err = mapError(err); errors.Is(err, objstore.ErrNotFound) {
		return nil
	}
	return err
}

// entries returns the names in a directory that may be keys with the prefix, or directories of such
// keys, sorted. A missing directory, or a file, has no entries.
func (w *walk) entries(name string) ([]string, error) {
	var info fs.FileInfo
	var err error
	if w.store.links {
		info, err = w.store.statFile(name)
	} else {
		info, err = w.store.root().Lstat(cmp.Or(name, "."))
	}
	if err == nil && !info.IsDir() {
		return nil, nil
	}
	var f *os.File
	if err == nil {
		f, err = w.store.openFile(name)
	}
	if err != nil {
		return nil, w.gone(err)
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, w.gone(err)
	}
	var entries []string
	for _, d := range list {
		key := path.Join(name, d.Name())
		if own(key) {
			continue
		}
		if d.IsDir() || w.linkedDir(key, d) {
			key += "/" // with the slash, the name sorts like the keys below it
			if strings.HasPrefix(w.prefix, key) {
				entries = append(entries, key)
				continue
			}
		}
		if strings.HasPrefix(key, w.prefix) {
			entries = append(entries, key)
		}
	}
	slices.Sort(entries)
	return entries, nil
}

// linkedDir reports whether an entry is a link to a directory, and links are followed.
func (w *walk) linkedDir(key string, d fs.DirEntry) bool {
	if !w.store.links || d.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := w.store.statFile(key)
	return err == nil && info.IsDir()
}

// file visits one file, unless it has been removed or is not an object.
func (w *walk) file(ctx context.Context, key string) error {
	o, err := w.store.stat(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrDenied):
		w.pass(key)
		return nil
	case err != nil:
		return err
	}
	w.visitErr = w.visit(o)
	return w.visitErr
}

// pass calls passed for a file that is not an object, if it is a link.
func (w *walk) pass(key string) {
	if info, err := w.store.root().Lstat(key); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return
	}
	target, err := os.Stat(filepath.Join(w.store.path, filepath.FromSlash(key)))
	w.passed(key, err == nil && target.IsDir())
}
