package chunkindex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// NoIndexError reports that a prefix has no index with this name.
type NoIndexError struct {
	Name string   // empty: the default index
	Has  []string // names of the existing indexes; empty: the default index
}

func (e *NoIndexError) Error() string {
	var have []string
	for _, name := range e.Has {
		have = append(have, NameText(name))
	}
	there := strings.Join(have, ", ")
	switch {
	case len(e.Has) == 0:
		return "no index here yet"
	case e.Name == "":
		return "there is no default index, only " + there + ": append one of these names to the address"
	}
	return fmt.Sprintf("there is no index %s, only %s", NameText(e.Name), there)
}

// Unwrap makes the error match objstore.ErrNotFound.
func (e *NoIndexError) Unwrap() error { return objstore.ErrNotFound }

// NameText returns the index name as written in addresses, or "the default one".
func NameText(name string) string {
	if name == "" {
		return "the default one"
	}
	return "#" + name
}

// requirePointer reads a pointer. If the pointer does not exist, requirePointer returns a
// NoIndexError that lists the existing indexes.
func requirePointer(ctx context.Context, store objstore.Store, prefix, name string) (layout.Pointer, error) {
	p, _, fault := layout.ReadPointer(ctx, store, prefix, name)
	if !errors.Is(fault, objstore.ErrNotFound) {
		return p, fault
	}
	names, err := IndexNames(ctx, store, prefix)
	if err != nil {
		return p, err
	}
	return p, fmt.Errorf("%w: %w", &NoIndexError{Name: name, Has: names}, fault)
}

// IndexNames returns the sorted names of a prefix's indexes; an empty name is the default index.
func IndexNames(ctx context.Context, store objstore.Store, prefix string) ([]string, error) {
	var names []string
	err := store.List(ctx, prefix+layout.PointerKey, func(o objstore.Object) error {
		if name, ok := layout.PointerName(prefix, o.Key); ok {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// publishedPointer is a pointer as stored with a dataset.
type publishedPointer struct {
	layout.Pointer
	name string
	obj  objstore.Object
}

// readPointers reads all pointers of a prefix, sorted by name. If there are none, it returns
// objstore.ErrNotFound.
func readPointers(ctx context.Context, store objstore.Store, prefix string) ([]publishedPointer, error) {
	names, err := IndexNames(ctx, store, prefix)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		_, err := requirePointer(ctx, store, prefix, "")
		return nil, err
	}
	all := make([]publishedPointer, 0, len(names))
	for _, name := range names {
		p, obj, err := layout.ReadPointer(ctx, store, prefix, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", layout.PointerObject(prefix, name), err)
		}
		all = append(all, publishedPointer{p, name, obj})
	}
	return all, nil
}

// Current returns the generations that the pointers of a prefix name.
func Current(ctx context.Context, store objstore.Store, prefix string) (map[string]bool, error) {
	all, err := readPointers(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("read the pointers of %q: %w", prefix, layout.Advise(prefix, "", err))
	}
	current := make(map[string]bool, len(all))
	for _, p := range all {
		current[p.Generation] = true
	}
	return current, nil
}

// Published returns the time at which the pointer of the index was written, by the clock of the
// store.
func (x *Index) Published(ctx context.Context, store objstore.Store, prefix string) (time.Time, error) {
	obj, err := store.Stat(ctx, layout.PointerObject(prefix, x.name))
	return obj.Modified, err
}

// IsCurrent reports whether the pointer still names the generation and binding that the index was
// opened with.
func (x *Index) IsCurrent(ctx context.Context, store objstore.Store, prefix string) (bool, error) {
	p, err := requirePointer(ctx, store, prefix, x.name)
	if err != nil {
		return false, fmt.Errorf("read the pointer %q: %w", prefix, layout.Advise(prefix, x.name, err))
	}
	return p.Generation == x.generation && layout.BindingObject(prefix, p.Generation, p.Binding) == x.binding, nil
}
