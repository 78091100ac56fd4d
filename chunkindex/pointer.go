package chunkindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	pointerKey     = stateDir + "current" // of the default index; a dash and its name follow for any other
	pointerVersion = indexVersion         // that of the index that it names
	maxPointer     = 64 << 10
)

// pointer is the small object that says which generation is current. It is written last.
type pointer struct {
	Version    int    `json:"version"`
	Generation string `json:"generation"`
	Binding    string `json:"binding"`         // SHA-256 of the binding object
	Data       string `json:"data,omitempty"`  // address of the shards, where they do not lie beside the index
	Links      bool   `json:"links,omitempty"` // links were followed out of the directory of the shards
}

var validIndexName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// ValidIndexName says whether an index can have this name. The default index has none.
func ValidIndexName(name string) bool { return validIndexName.MatchString(name) }

// pointerObject is the key of an index's pointer; an empty name means the default index.
func pointerObject(prefix, name string) string {
	if name == "" {
		return prefix + pointerKey
	}
	return prefix + pointerKey + "-" + name
}

// pointerName returns the name of the index whose pointer has this key.
func pointerName(prefix, key string) (name string, ok bool) {
	rest := strings.TrimPrefix(key, prefix+pointerKey)
	name, named := strings.CutPrefix(rest, "-")
	return name, rest == "" || named && ValidIndexName(name)
}

// NoIndexError says that a prefix has no index of this name.
type NoIndexError struct {
	Name string   // empty: the default index
	Has  []string // the names of the indexes that are there; an empty one is the default index
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
		return "no default index here, but " + there + ": name one behind the address"
	}
	return fmt.Sprintf("no index %s here, but %s", NameText(e.Name), there)
}

// Unwrap makes it objstore.ErrNotFound.
func (e *NoIndexError) Unwrap() error { return objstore.ErrNotFound }

// NameText is the name of an index as an address has it, and words for the default one.
func NameText(name string) string {
	if name == "" {
		return "the default one"
	}
	return "#" + name
}

// pointerReads is how often a pointer is read before its readers give up: runs do not publish one after another so fast.
const pointerReads = 4

// readPointer also returns the object, whose ETag a conditional write names. A pointer that is replaced between the
// two requests that it takes to read it is read again: the reader gets the old one or the new one.
func readPointer(ctx context.Context, store objstore.Store, prefix, name string) (p pointer, obj objstore.Object, err error) {
	for range pointerReads {
		if p, obj, err = readPointerOnce(ctx, store, prefix, name); !errors.Is(err, objstore.ErrChanged) {
			break
		}
	}
	return p, obj, err
}

func readPointerOnce(ctx context.Context, store objstore.Store, prefix, name string) (pointer, objstore.Object, error) {
	var p pointer
	obj, err := store.Stat(ctx, pointerObject(prefix, name))
	if err != nil {
		return p, obj, err
	}
	b, err := readSmall(ctx, store, obj, maxPointer)
	if err != nil {
		return p, obj, err
	}
	p, err = decodePointer(b)
	if err != nil {
		return p, obj, fmt.Errorf("pointer: %w", err)
	}
	return p, obj, nil
}

// decodePointer reads the version first, since nothing else in a newer pointer can be relied upon.
func decodePointer(b []byte) (pointer, error) {
	var v struct{ Version int }
	if err := json.Unmarshal(b, &v); err != nil {
		return pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if v.Version > pointerVersion {
		return pointer{}, newer("version", v.Version)
	}
	var p pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if p.Version < 1 || !isDigest(p.Generation) || !isDigest(p.Binding) {
		return pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, errMalformed)
	}
	return p, nil
}

// wantPointer reads a pointer whose index the caller needs. Where there is none, the error names the indexes that are there.
func wantPointer(ctx context.Context, store objstore.Store, prefix, name string) (pointer, error) {
	p, _, fault := readPointer(ctx, store, prefix, name)
	if !errors.Is(fault, objstore.ErrNotFound) {
		return p, fault
	}
	names, err := IndexNames(ctx, store, prefix)
	if err != nil {
		return p, err
	}
	return p, fmt.Errorf("%w: %w", &NoIndexError{Name: name, Has: names}, fault)
}

// IndexNames lists the names of the indexes of a prefix, sorted; an empty name is the default index.
func IndexNames(ctx context.Context, store objstore.Store, prefix string) ([]string, error) {
	var names []string
	err := store.List(ctx, prefix+pointerKey, func(o objstore.Object) error {
		if name, ok := pointerName(prefix, o.Key); ok {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// publishedPointer is a pointer as it lies beside a dataset.
type publishedPointer struct {
	pointer
	name string
	obj  objstore.Object
}

// readPointers reads all pointers of a prefix, in the order of their names. Where there is none the error is objstore.ErrNotFound.
func readPointers(ctx context.Context, store objstore.Store, prefix string) ([]publishedPointer, error) {
	names, err := IndexNames(ctx, store, prefix)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		_, err := wantPointer(ctx, store, prefix, "")
		return nil, err
	}
	all := make([]publishedPointer, 0, len(names))
	for _, name := range names {
		p, obj, err := readPointer(ctx, store, prefix, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pointerObject(prefix, name), err)
		}
		all = append(all, publishedPointer{p, name, obj})
	}
	return all, nil
}

// Current returns the generations that the pointers of a prefix name.
func Current(ctx context.Context, store objstore.Store, prefix string) (map[string]bool, error) {
	all, err := readPointers(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("read the pointers of %q: %w", prefix, advise(prefix, "", err))
	}
	current := make(map[string]bool, len(all))
	for _, p := range all {
		current[p.Generation] = true
	}
	return current, nil
}

// Published is when the pointer of the index was written, by the clock of the store.
func (x *Index) Published(ctx context.Context, store objstore.Store, prefix string) (time.Time, error) {
	obj, err := store.Stat(ctx, pointerObject(prefix, x.name))
	return obj.Modified, err
}

// IsCurrent reports whether the pointer that the index was opened by names it still, and the versions of the shards that it was
// opened with.
func (x *Index) IsCurrent(ctx context.Context, store objstore.Store, prefix string) (bool, error) {
	p, err := wantPointer(ctx, store, prefix, x.name)
	if err != nil {
		return false, fmt.Errorf("read the pointer %q: %w", prefix, advise(prefix, x.name, err))
	}
	return p.Generation == x.digest && bindingObject(prefix, p.Generation, p.Binding) == x.binding, nil
}
