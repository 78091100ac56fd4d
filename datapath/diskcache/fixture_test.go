package diskcache

import (
	"bytes"
	"crypto/sha256"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// chunkOf returns the key and the n bytes of test chunk i.
func chunkOf(i, n int) (Key, []byte) {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), 7})
	_, _ = random.Read(data)
	return Key{
		Source: [32]byte{1, 2, 3}, Digest: sha256.Sum256(data), Length: int64(n),
		CRC32C: crc32.Checksum(data, castagnoli()),
	}, data
}

const fixtureDataset = "s3://bucket/photos"

// open opens a cache, and checks at the end of the test that it has released its resources. Tests
// that run in parallel use opened.
func open(t testing.TB, cfg Config, next ...func(uint64) time.Duration) *Cache {
	t.Helper()
	leaks.Check(t)
	return opened(t, cfg, next...)
}

func opened(t testing.TB, cfg Config, next ...func(uint64) time.Duration) *Cache {
	t.Helper()
	if cfg.Datasets == nil {
		cfg.Datasets = []string{fixtureDataset}
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 20
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range next {
		c.Follow(f)
	}
	t.Cleanup(func() { c.idle(t) })
	return c
}

// idle fails the test if a file is being written or removed, or if the byte count differs from the
// sum over the list.
func (c *Cache) idle(t testing.TB) {
	t.Helper()
	var bytes int64
	for _, e := range c.entries {
		bytes += e.size
	}
	if len(c.busy) != 0 || c.writing.Load() != 0 || c.bytes != bytes {
		t.Errorf("got %d busy files, %d bytes being written, a sum of %d bytes; want none, none and %d", len(c.busy), c.writing.Load(), c.bytes, bytes)
	}
}

func mustWrite(t testing.TB, c *Cache, i, n int) Key {
	t.Helper()
	key, data := chunkOf(i, n)
	if !c.Write(t.Context(), key, uint64(i), data) {
		t.Fatalf("write chunk %d: not kept", i)
	}
	return key
}

// wantThere reads chunk i and checks whether it is cached as expected.
func wantThere(t testing.TB, c *Cache, i, n int, want bool) {
	t.Helper()
	key, data := chunkOf(i, n)
	dst := make([]byte, n)
	got := c.Read(t.Context(), key, dst)
	if got != want {
		t.Errorf("read chunk %d: got %v, want %v", i, got, want)
	}
	if got && !bytes.Equal(dst, data) {
		t.Errorf("read chunk %d: got other bytes than were written", i)
	}
}

// chunkFiles lists all files below the chunk directory with the space that each uses.
func chunkFiles(t testing.TB, dir string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	err := filepath.Walk(filepath.Join(dir, chunkDir), func(p string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files[p] = Cost(info.Size() - footerSize)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// onlyFile returns the path of the only chunk file below dir.
func onlyFile(t testing.TB, dir string) string {
	t.Helper()
	files := chunkFiles(t, dir)
	if len(files) != 1 {
		t.Fatalf("chunk files: got %d, want 1", len(files))
	}
	for p := range files {
		return p
	}
	return ""
}
