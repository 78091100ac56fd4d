package chunkindex

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// goldenV1 returns the index of version 1 of a golden data set.
func goldenV1(t testing.TB, name string) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata/golden-v1", name, "data", indexDir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got %q, %v, want one index", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refoot makes the digest of an index of version 1 right again, so that what lies behind it is reached, and returns its generation.
func refoot(b []byte) string {
	foot := len(b) - footerSize
	sum := sha256.Sum256(b[:foot])
	copy(b[foot:], sum[:])
	return hex.EncodeToString(sum[:])
}

// An index of version 1 with any byte of its header, its resident sections or its blocks changed is refused by their own checksums, and without a
// new digest by that.
func TestDamagedIndexOfVersion1(t *testing.T) {
	for _, name := range []string{"tar", "tokens", "files"} {
		whole := goldenV1(t, name)
		if err := use(parseIndex(fileOf(t, whole), int64(len(whole)), refoot(bytes.Clone(whole)), nil, true)); err != nil {
			t.Fatalf("%s: got %v", name, err)
		}
		f := fileOf(t, whole)
		for i := 0; i < len(whole)-footerSize; i += 7 {
			b := bytes.Clone(whole)
			generation := refoot(b)
			b[i] ^= 0x10
			if _, err := f.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := parseIndex(f, int64(len(b)), generation, nil, true); err == nil {
				t.Fatalf("%s: byte %d: got an index", name, i)
			}
			generation = refoot(b)
			if _, err := f.WriteAt(b, 0); err != nil {
				t.Fatal(err)
			}
			if err := use(parseIndex(f, int64(len(b)), generation, nil, true)); err == nil {
				t.Fatalf("%s: byte %d with a new digest: got an index", name, i)
			}
		}
	}
}
