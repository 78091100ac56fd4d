//go:build !race

package chunkindex

import (
	"bytes"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memory"
)

func TestParseIndex_RejectsEveryBitFlip(t *testing.T) {
	b := smallIndex(t)
	f := fileOf(t, b)
	deep := fileOf(t, b)
	p := bytes.Clone(b)
	generation := generationOf(b)
	for i := range b {
		got := memory.Allocated(func() {
			for bit := range 8 {
				p[i] ^= 1 << bit
				if _, err := f.WriteAt(p[i:i+1], int64(i)); err != nil {
					t.Fatal(err)
				}
				if _, err := parseFile(f, generation); err == nil {
					t.Fatalf("bit %d of byte %d: got an index", bit, i)
				}
				// With recomputed digests, useAll may accept the index, but must
				// not allocate more memory than the values justify.
				q := bytes.Clone(p)
				fixDigests(q)
				if _, err := deep.WriteAt(q, 0); err != nil {
					t.Fatal(err)
				}
				_ = useAll(t, deep)
				p[i] ^= 1 << bit
			}
			if _, err := f.WriteAt(p[i:i+1], int64(i)); err != nil {
				t.Fatal(err)
			}
		})
		if got > 8<<20 {
			t.Fatalf("byte %d: got %d bytes allocated", i, got)
		}
	}
}
