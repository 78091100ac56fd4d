//go:build !race

package chunkindex

import (
	"bytes"
	"testing"
)

func TestEverySingleBitFlipIsRefused(t *testing.T) {
	b := smallIndex(t)
	f := fileOf(t, b)
	deep := fileOf(t, b)
	p := bytes.Clone(b)
	for i := range b {
		got := allocated(func() {
			for bit := range 8 {
				p[i] ^= 1 << bit
				if _, err := f.WriteAt(p[i:i+1], int64(i)); err != nil {
					t.Fatal(err)
				}
				if _, err := parseAny(f, int64(len(b))); err == nil {
					t.Fatalf("bit %d of byte %d: got an index", bit, i)
				}
				// Behind a digest that was made right again, the sections' own checksums hold.
				q := bytes.Clone(p)
				refoot(q)
				if _, err := deep.WriteAt(q, 0); err != nil {
					t.Fatal(err)
				}
				if err := useAll(deep, int64(len(b))); err == nil && i < len(b)-footerSize {
					t.Errorf("bit %d of byte %d with a new footer: got an index", bit, i)
				}
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
