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
	hashes := map[string]func() hash.Hash{
		"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
		"sha3_224": func() hash.Hash { return sha3.New224() },
		"sha3_256": func() hash.Hash { return sha3.New256() },
		"sha3_384": func() hash.Hash { return sha3.New384() },
		"sha3_512": func() hash.Hash { return sha3.New512() },
		"xxh64":    func() hash.Hash { return xxhash.New() },
		"xxh3_64":  func() hash.Hash { return xxh3.New() },
		"xxh3_128": func() hash.Hash { return wide{xxh3.New()} },
		"xxh128":   func() hash.Hash { return wide{xxh3.New()} },
	}
	if made := hashes[name]; made != nil {
		return made()
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
