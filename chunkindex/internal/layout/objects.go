package layout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Names of the objects beside a dataset. All of them lie under StateDir, which is never scanned for shards.
const (
	StateDir   = ".millrace/"
	IndexDir   = StateDir + "index/"
	BindingDir = StateDir + "binding/"
	ScanDir    = StateDir + "scan/"
	ProbeDir   = StateDir + "probe/"
	OwnerDir   = StateDir + "owner/"
)

// IndexObject is the key of a generation.
func IndexObject(prefix, generation string) string { return prefix + IndexDir + generation }

// BindingObject is the key of a binding of a generation, by the SHA-256 of the binding.
func BindingObject(prefix, generation, hash string) string {
	return prefix + BindingDir + generation + "-" + hash
}

// OwnObject says whether a key, relative to the prefix, lies beside a dataset, here or further down.
func OwnObject(key string) bool {
	return strings.HasPrefix(key, StateDir) || strings.Contains(key, "/"+StateDir)
}

// IsDigest reports whether a text is a SHA-256 in lower-case hex.
func IsDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

// ReadSmall reads a whole object, as it was when obj was learned.
func ReadSmall(ctx context.Context, store objstore.Store, obj objstore.Object, limit int64) ([]byte, error) {
	if obj.Size == 0 || obj.Size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes", obj.Key, ErrCorrupt, obj.Size)
	}
	b := make([]byte, obj.Size)
	if err := store.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return nil, err
	}
	return b, nil
}

// CheckShardKey refuses keys that lead out of the dataset, or to objects that are no shards.
func CheckShardKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if OwnObject(key) {
		return fmt.Errorf("key %q is not that of a shard", key)
	}
	return nil
}

// A prefix with several indexes has the generations of all of them side by side. A small object for each generation and each index
// that ever was this generation says so: URLs reach the generations of their own index alone, and gc knows when a generation was
// replaced. A generation without such an object belongs to the default index, so a prefix with one index needs none of them.

// OwnerObject is the key of what says that a generation is one of an index; an empty name means the default index.
func OwnerObject(prefix, generation, name string) string {
	return prefix + OwnerDir + generation + "-" + name
}

// ParseOwner returns what the key of such an object says.
func ParseOwner(prefix, key string) (generation, name string, ok bool) {
	generation, name, found := strings.Cut(strings.TrimPrefix(key, prefix+OwnerDir), "-")
	return generation, name, found && IsDigest(generation) && (name == "" || ValidIndexName(name))
}

// Owners returns the names of the indexes that a generation is noted for.
func Owners(ctx context.Context, store objstore.Store, prefix, generation string) (names []string, err error) {
	err = store.List(ctx, OwnerObject(prefix, generation, ""), func(o objstore.Object) error {
		if _, name, ok := ParseOwner(prefix, o.Key); ok {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// CheckOwner refuses a generation that never was the one of this index.
func CheckOwner(ctx context.Context, store objstore.Store, prefix, name, generation string) error {
	names, err := Owners(ctx, store, prefix, generation)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("generation %.12s is none of this index: %w", generation, objstore.ErrNotFound)
	}
	return nil
}
