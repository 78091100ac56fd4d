// Package indextest creates small datasets for the tests of other packages: tar shards with known
// content in any store, indexed by Millrace's own code.
package indextest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// Spec describes a dataset. If Sizes is empty, the dataset has one shard without samples.
type Spec struct {
	Prefix string // empty, or ending in a slash
	Sizes  []int  // content bytes of each sample, in stored order, without tar header and padding
	Shards int    // number of shards, over which the samples are divided evenly; 0 means 1
	Build  build.Options
	Seed   uint64 // seed of the random content
}

// Dataset is a dataset created from a Spec.
type Dataset struct {
	Index   *chunkindex.Index // the open index; closed when the test ends
	Report  build.Report
	Keys    []string // keys of the samples, in stored order
	Samples [][]byte // stored bytes of each sample, including headers and padding
	Content [][]byte // content of each sample's only member, KEY.bin
	Shards  []string // keys of the shards in the store, including the prefix
	Bodies  [][]byte // bytes of each shard
}

// Sizes returns n equal sizes.
func Sizes(n, size int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = size
	}
	return s
}

// Random returns n sizes from lo to hi. They depend only on the arguments.
func Random(n, lo, hi int, seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 1))
	s := make([]int, n)
	for i := range s {
		s[i] = lo + r.IntN(hi-lo+1)
	}
	return s
}

// Make writes the shards to the store, indexes them and opens the index.
func Make(t testing.TB, store objstore.Store, spec Spec) *Dataset {
	t.Helper()
	d := Write(t, store, spec)
	var err error
	spec.Build.AllowEmpty = spec.Build.AllowEmpty || len(spec.Sizes) == 0
	if d.Report, err = build.Run(t.Context(), store, spec.Prefix, spec.Build); err != nil {
		t.Fatal(err)
	}
	d.Index, err = chunkindex.Open(t.Context(), store, spec.Prefix, chunkindex.OpenOptions{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Index.Close() })
	return d
}

// Write writes the shards to the store without indexing them.
func Write(t testing.TB, store objstore.Store, spec Spec) *Dataset {
	t.Helper()
	d := &Dataset{}
	shards := max(spec.Shards, 1)
	r := rand.NewChaCha8([32]byte{byte(spec.Seed), byte(spec.Seed >> 8), byte(spec.Seed >> 16)})
	n := len(spec.Sizes)
	for s := range shards {
		var body bytes.Buffer
		w := tar.NewWriter(&body)
		for i := s * n / shards; i < (s+1)*n/shards; i++ {
			content := make([]byte, spec.Sizes[i])
			_, _ = io.ReadFull(r, content)
			start := body.Len()
			key := fmt.Sprintf("%08d", i)
			err := w.WriteHeader(&tar.Header{Name: key + ".bin", Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR})
			if err == nil {
				_, err = w.Write(content)
			}
			if err == nil {
				err = w.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			d.Keys, d.Content = append(d.Keys, key), append(d.Content, content)
			d.Samples = append(d.Samples, bytes.Clone(body.Bytes()[start:]))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%sshard-%05d.tar", spec.Prefix, s)
		if _, err := store.Put(t.Context(), key, bytes.NewReader(body.Bytes()), int64(body.Len()), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
		d.Shards, d.Bodies = append(d.Shards, key), append(d.Bodies, body.Bytes())
	}
	return d
}

// MendTar corrects the checksum of every block that could be a header in a tar that a test has
// modified.
func MendTar(b []byte) {
	for ; len(b) >= 512; b = b[512:] {
		if string(b[257:262]) != "ustar" {
			continue
		}
		sum := 0
		for i, c := range b[:512] {
			if i >= 148 && i < 156 {
				c = ' '
			}
			sum += int(c)
		}
		copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	}
}

// Beside returns the objects that Millrace has written to the store next to the shards, by key.
func Beside(store *memstore.Store) map[string]string {
	own := map[string]string{}
	for _, key := range store.Keys() {
		if strings.Contains(key, ".millrace/") {
			b, _ := store.Bytes(key)
			own[key] = string(b)
		}
	}
	return own
}
