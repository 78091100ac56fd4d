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
		for _, s := range v.strings(magic) {
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(*s))), *s...)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// strings returns the strings that a binding with this magic number has per shard.
func (v *ShardVersion) strings(magic string) []*string {
	if magic == BindingSays {
		return []*string{&v.ETag, &v.ID, &v.Says}
	}
	return []*string{&v.ETag, &v.ID}
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
	magic := string(b[:8])
	if magic != BindingSays && magic != bindingMagic {
		return nil, Newer("version", magic[6:])
	}
	if hex.EncodeToString(b[8:40]) != generation {
		return nil, errors.New("it is the binding of another generation")
	}
	if count := binary.LittleEndian.Uint32(b[40:]); uint64(count) != uint64(shards) {
		return nil, fmt.Errorf("binding has %d shards, but the index has %d", count, shards)
	}
	b = b[44:n]
	if shards > len(b)/4 {
		return nil, ErrMalformed
	}
	out := make([]ShardVersion, shards)
	for i := range out {
		v := &out[i]
		for _, s := range v.strings(magic) {
			if len(b) < 2 || int(binary.LittleEndian.Uint16(b)) > min(MaxVersion, len(b)-2) {
				return nil, fmt.Errorf("shard %d: %w", i, ErrMalformed)
			}
			end := 2 + int(binary.LittleEndian.Uint16(b))
			*s, b = string(b[2:end]), b[end:]
		}
		if v.ETag == "" || v.Says != "" && len(v.Says) != sha256.Size {
			return nil, fmt.Errorf("shard %d: %w", i, ErrMalformed)
		}
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
