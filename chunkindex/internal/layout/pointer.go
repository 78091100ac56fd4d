package layout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Place, version and bound of a Pointer.
const (
	PointerKey     = StateDir + "current" // of the default index; a dash and its name follow for any other
	PointerVersion = IndexVersion         // that of the index that it names
	MaxPointer     = 64 << 10
)

// Pointer is the small object that says which generation is current. It is written last.
type Pointer struct {
	Version    int    `json:"version"`
	Generation string `json:"generation"`
	Binding    string `json:"binding"`         // SHA-256 of the binding object
	Data       string `json:"data,omitempty"`  // address of the shards, where they do not lie beside the index
	Links      bool   `json:"links,omitempty"` // links were followed out of the directory of the shards
}

var validIndexName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// ValidIndexName says whether an index can have this name. The default index has none.
func ValidIndexName(name string) bool { return validIndexName.MatchString(name) }

// PointerObject is the key of an index's pointer; an empty name means the default index.
func PointerObject(prefix, name string) string {
	if name == "" {
		return prefix + PointerKey
	}
	return prefix + PointerKey + "-" + name
}

// PointerName returns the name of the index whose pointer has this key.
func PointerName(prefix, key string) (name string, ok bool) {
	rest := strings.TrimPrefix(key, prefix+PointerKey)
	name, named := strings.CutPrefix(rest, "-")
	return name, rest == "" || named && ValidIndexName(name)
}

// pointerReads is how often a pointer is read before its readers give up: runs do not publish one after another so fast.
const pointerReads = 4

// ReadPointer also returns the object, whose ETag a conditional write names. A pointer that is replaced between the
// two requests that it takes to read it is read again: the reader gets the old one or the new one.
func ReadPointer(ctx context.Context, store objstore.Store, prefix, name string) (p Pointer, obj objstore.Object, err error) {
	for range pointerReads {
		if p, obj, err = readPointerOnce(ctx, store, prefix, name); !errors.Is(err, objstore.ErrChanged) {
			break
		}
	}
	return p, obj, err
}

func readPointerOnce(ctx context.Context, store objstore.Store, prefix, name string) (Pointer, objstore.Object, error) {
	var p Pointer
	obj, err := store.Stat(ctx, PointerObject(prefix, name))
	if err != nil {
		return p, obj, err
	}
	b, err := ReadSmall(ctx, store, obj, MaxPointer)
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
func decodePointer(b []byte) (Pointer, error) {
	var v struct{ Version int }
	if err := json.Unmarshal(b, &v); err != nil {
		return Pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if v.Version > PointerVersion {
		return Pointer{}, Newer("version", v.Version)
	}
	var p Pointer
	if err := json.Unmarshal(b, &p); err != nil {
		return Pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if p.Version < 1 || !IsDigest(p.Generation) || !IsDigest(p.Binding) {
		return Pointer{}, fmt.Errorf("%w: %w", ErrCorrupt, ErrMalformed)
	}
	return p, nil
}
