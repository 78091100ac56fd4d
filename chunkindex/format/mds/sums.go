package mds

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// newHash returns the hash function that MDSWriter calls name, or nil if the function is not
// supported.
func newHash(name string) hash.Hash {
	switch name {
	case "md5":
		return md5.New()
	case "sha1":
		return sha1.New()
	case "sha224":
		return sha256.New224()
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	case "sha3_224":
		return sha3.New224()
	case "sha3_256":
		return sha3.New256()
	case "sha3_384":
		return sha3.New384()
	case "sha3_512":
		return sha3.New512()
	case "xxh64":
		return xxhash.New()
	case "xxh3_64":
		return xxh3.New()
	case "xxh3_128", "xxh128":
		return wide{xxh3.New()}
	}
	return nil
}

// wide is XXH3 with 128 bits.
type wide struct{ *xxh3.Hasher }

func (w wide) Sum(b []byte) []byte {
	sum := w.Sum128().Bytes()
	return append(b, sum[:]...)
}

func (wide) Size() int { return 16 }

// sums computes the hashes of a shard from the bytes written to it. It covers the supported hashes
// that the index declares.
type sums struct {
	names []string
	made  []hash.Hash
	want  map[string]string
}

func newSums(want map[string]string) *sums {
	s := &sums{want: want}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if h := newHash(name); h != nil {
			s.names, s.made = append(s.names, name), append(s.made, h)
		}
	}
	return s
}

func (s *sums) Write(p []byte) (int, error) {
	for _, h := range s.made {
		h.Write(p)
	}
	return len(p), nil
}

func (s *sums) check() error {
	for i, name := range s.names {
		if got := hex.EncodeToString(s.made[i].Sum(nil)); got != strings.ToLower(s.want[name]) {
			return fmt.Errorf("its %s is %s, but %.200s in index.json", name, got, s.want[name])
		}
	}
	return nil
}
