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

// Key prefixes of the objects stored with a dataset. All are under StateDir, which is never scanned
// for shards.
const (
	StateDir   = ".millrace/"
	IndexDir   = StateDir + "index/"
	SegmentDir = StateDir + "segment/"
	BindingDir = StateDir + "binding/"
	ScanDir    = StateDir + "scan/"
	ProbeDir   = StateDir + "probe/"
	OwnerDir   = StateDir + "owner/"
)

// IndexObject returns the key of a generation's index object.
func IndexObject(prefix, generation string) string { return prefix + IndexDir + generation }

// SegmentObject returns the key of a segment. name is SegmentRef.Name.
func SegmentObject(prefix, name string) string { return prefix + SegmentDir + name }

// BindingObject returns the key of a generation's binding. hash is the SHA-256 of the binding.
func BindingObject(prefix, generation, hash string) string {
	return prefix + BindingDir + generation + "-" + hash
}

// OwnObject reports whether a key, relative to the prefix, is in the state directory of this or a
// nested dataset.
func OwnObject(key string) bool {
	return strings.HasPrefix(key, StateDir) || strings.Contains(key, "/"+StateDir)
}

// IsDigest reports whether s is a SHA-256 in lower-case hex.
func IsDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

// shortDigits is the number of digits that identify a generation in the state of a run
// (docs/spec/state.md).
const shortDigits = 32

// WholeGeneration returns the stored generation that begins with 32 digits. It returns a whole
// generation unchanged.
func WholeGeneration(ctx context.Context, store objstore.Store, prefix, generation string) (string, error) {
	if IsDigest(generation) {
		return generation, nil
	}
	whole := ""
	if len(generation) == shortDigits {
		err := store.List(ctx, prefix+BindingDir+generation, func(o objstore.Object) error {
			if found, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix+BindingDir), "-"); IsDigest(found) {
				whole = found
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	if whole == "" {
		return "", fmt.Errorf("generation %q: %w", generation, objstore.ErrNotFound)
	}
	return whole, nil
}

// ReadSmall reads a whole object, in the version that obj describes.
func ReadSmall(ctx context.Context, store objstore.Store, obj objstore.Object, limit int64) ([]byte, error) {
	if obj.Size == 0 || obj.Size > limit {
		return nil, fmt.Errorf("%s: %w: size of %d bytes", obj.Key, ErrCorrupt, obj.Size)
	}
	b := make([]byte, obj.Size)
	if err := store.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return nil, err
	}
	return b, nil
}

// CheckShardKey rejects keys outside of the dataset, and keys of objects that are not shards.
func CheckShardKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if OwnObject(key) {
		return fmt.Errorf("key %q is not a shard key", key)
	}
	return nil
}

// A prefix with several indexes stores all their generations in one directory. An owner object
// records that a generation was once current in an index. It restricts URLs to the generations of
// their own index, and tells gc when a generation was replaced. A generation without owner objects
// belongs to the default index, so a prefix with one index needs none.

// OwnerObject returns the key of the owner object for a generation and an index; an empty name
// means the default index.
func OwnerObject(prefix, generation, name string) string {
	return prefix + OwnerDir + generation + "-" + name
}

// ParseOwner parses the key of an owner object.
func ParseOwner(prefix, key string) (generation, name string, ok bool) {
	generation, name, found := strings.Cut(strings.TrimPrefix(key, prefix+OwnerDir), "-")
	return generation, name, found && IsDigest(generation) && (name == "" || ValidIndexName(name))
}

// Owners returns the names of the indexes that have an owner object for the generation.
func Owners(ctx context.Context, store objstore.Store, prefix, generation string) (names []string, err error) {
	err = store.List(ctx, OwnerObject(prefix, generation, ""), func(o objstore.Object) error {
		if _, name, ok := ParseOwner(prefix, o.Key); ok {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// CheckOwner returns ErrNotFound unless the generation was once current in the index.
func CheckOwner(ctx context.Context, store objstore.Store, prefix, name, generation string) error {
	names, err := Owners(ctx, store, prefix, generation)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = []string{""}
	}
	if !slices.Contains(names, name) {
		return fmt.Errorf("generation %.12s was never current in this index: %w", generation, objstore.ErrNotFound)
	}
	return nil
}
