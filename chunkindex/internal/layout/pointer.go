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

// Key, version and size limit of a pointer.
const (
	PointerKey     = StateDir + "current" // pointer of the default index; other pointers append a dash and the index name
	PointerVersion = IndexVersion         // version of the index that the pointer names
	MaxPointer     = 64 << 10
)

// Pointer names the current generation. An index run writes it last.
type Pointer struct {
	Version    int    `json:"version"`
	Generation string `json:"generation"`
	Binding    string `json:"binding"`         // SHA-256 of the binding object
	Data       string `json:"data,omitempty"`  // address of the shards, if the index is stored apart from them
	Links      bool   `json:"links,omitempty"` // the index run followed links out of the shards' directory

	RepeatedKeys uint64 `json:"repeated_keys,omitempty"` // number of keys that occur in several shards
	RepeatedKey  string `json:"repeated_key,omitempty"`  // one such key
}

var validIndexName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

// ValidIndexName reports whether name is valid for an index. The default index has no name.
func ValidIndexName(name string) bool { return validIndexName.MatchString(name) }

// PointerObject returns the key of an index's pointer; an empty name means the default index.
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

// pointerReads limits the attempts to read a pointer. Index runs do not publish often enough to
// exhaust the limit.
const pointerReads = 4

// ReadPointer reads a pointer. It also returns the pointer's object, because a conditional write
// needs the ETag. If the pointer is replaced between its two requests, ReadPointer retries. It thus
// returns either the old or the new pointer.
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

// decodePointer checks the version first, because other fields of a newer pointer may differ.
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
