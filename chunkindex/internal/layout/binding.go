package layout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// ShardVersion identifies the object version that a shard is bound to. Says is the SHA-256 of other
// objects' statements about the shard at scan time; empty: there were none.
type ShardVersion struct{ ETag, ID, Says string }

// SaysDigest returns the digest that a binding stores for other objects' statements about a shard.
func SaysDigest(says string) string {
	if says == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(says))
	return string(sum[:])
}

// Magic numbers and limits of a binding object.
const (
	bindingMagic = "MRBIND01" // the last two digits are the version
	BindingSays  = "MRBIND02" // with a third string per shard
	maxBinding   = 1 << 30
	MaxVersion   = 1024 // maximum bytes of an ETag or of a version ID
)

// EncodeBinding returns a binding object: magic, generation, count, strings per shard, SHA-256.
func EncodeBinding(generation string, versions []ShardVersion) ([]byte, error) {
	digest, err := hex.DecodeString(generation)
	if err != nil {
		return nil, err
	}
	magic := bindingMagic
	if slices.ContainsFunc(versions, func(v ShardVersion) bool { return v.Says != "" }) {
		magic = BindingSays
	}
	b := append([]byte(magic), digest...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(versions)))
	for _, v := range versions {
		if len(v.ETag) > MaxVersion || len(v.ID) > MaxVersion {
			return nil, fmt.Errorf("the store returned the ETag %.40q: it or the object's version ID is longer than %d bytes", v.ETag, MaxVersion)
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(len(v.ETag)))
		b = append(b, v.ETag...)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(v.ID)))
		b = append(b, v.ID...)
		if magic == BindingSays {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(v.Says)))
			b = append(b, v.Says...)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// BindingHash returns the name of a binding: its last 32 bytes, which are the SHA-256 of the
// preceding bytes.
func BindingHash(b []byte) string { return hex.EncodeToString(b[len(b)-sha256.Size:]) }

func decodeBinding(b []byte, generation string, shards int) ([]ShardVersion, error) {
	n := len(b) - sha256.Size
	if n < len(bindingMagic)+36 || !bytes.HasPrefix(b, []byte(bindingMagic[:6])) {
		return nil, ErrMalformed
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return nil, errors.New("its digest does not match its content")
	}
	says := string(b[:8]) == BindingSays
	if v := string(b[6:8]); !says && v != bindingMagic[6:] {
		return nil, Newer("version", v)
	}
	if hex.EncodeToString(b[8:40]) != generation {
		return nil, errors.New("it is the binding of another generation")
	}
	if count := binary.LittleEndian.Uint32(b[40:]); uint64(count) != uint64(shards) {
		return nil, fmt.Errorf("binding has %d shards, but the index has %d", count, shards)
	}
	b = b[44:n]
	next := func() (string, bool) {
		if len(b) < 2 {
			return "", false
		}
		size := int(binary.LittleEndian.Uint16(b))
		if size > MaxVersion || size > len(b)-2 {
			return "", false
		}
		s := string(b[2 : 2+size])
		b = b[2+size:]
		return s, true
	}
	if shards > len(b)/4 {
		return nil, ErrMalformed
	}
	out := make([]ShardVersion, shards)
	for i := range out {
		etag, ok1 := next()
		id, ok2 := next()
		said, ok3 := "", true
		if says {
			said, ok3 = next()
		}
		if !ok1 || !ok2 || !ok3 || etag == "" || len(said) != 0 && len(said) != sha256.Size {
			return nil, fmt.Errorf("shard %d: %w", i, ErrMalformed)
		}
		out[i] = ShardVersion{etag, id, said}
	}
	if len(b) != 0 {
		return nil, ErrMalformed
	}
	return out, nil
}

// ReadBinding reads the versions of all shards of a generation.
func ReadBinding(ctx context.Context, store objstore.Store, key, generation string, shards int) ([]ShardVersion, error) {
	obj, err := store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	b, err := ReadSmall(ctx, store, obj, min(maxBinding, MaxPointer+int64(shards)*(6+2*MaxVersion+sha256.Size)))
	if err != nil {
		return nil, err
	}
	v, err := decodeBinding(b, generation, shards)
	if err == nil && !strings.HasSuffix(key, "-"+BindingHash(b)) {
		err = errors.New("digest does not match the object's key")
	}
	if errors.Is(err, ErrVersion) {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", key, ErrCorrupt, err)
	}
	return v, nil
}
