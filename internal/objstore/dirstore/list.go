package dirstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// List implements objstore.Store.
func (s *Store) List(ctx context.Context, prefix string, visit func(objstore.Object) error) error {
	dir := ""
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		dir = prefix[:i]
	}
	if dir != "" && objstore.CheckKey(dir) != nil {
		return nil // no key begins so
	}
	w := walk{store: s, prefix: prefix, visit: visit}
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
	visitErr error // what visit returned, to be passed on as it is
}

// dir visits what lies below the directory name, in byte order of the keys.
func (w *walk) dir(ctx context.Context, name string) error {
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

// entries returns what may be or hold a key with the prefix, sorted. A directory that
// is gone, or is none, holds nothing.
func (w *walk) entries(name string) ([]string, error) {
	open := name
	if open == "" {
		open = "."
	}
	info, err := w.store.root.Lstat(open)
	if err == nil && !info.IsDir() {
		return nil, nil
	}
	var f *os.File
	if err == nil {
		f, err = w.store.root.Open(open)
	}
	if err != nil {
		if err = mapError(err); errors.Is(err, objstore.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		if err = mapError(err); errors.Is(err, objstore.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	var entries []string
	for _, d := range list {
		key := path.Join(name, d.Name())
		if own(key) {
			continue
		}
		if d.IsDir() {
			key += "/" // that is how its keys sort
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

// file visits one file, unless it is gone or no object.
func (w *walk) file(ctx context.Context, key string) error {
	o, err := w.store.stat(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrDenied):
		return nil
	case err != nil:
		return err
	}
	w.visitErr = w.visit(o)
	return w.visitErr
}
