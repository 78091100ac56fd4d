package selection

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

var update = flag.Bool("update", false, "write testdata/rules.json anew; a rule that was released never changes")

func testGeneration() string { return strings.Repeat("11", 32) }

// dataset is a list of chunks of keys.
type dataset [][]string

func (d dataset) Generation() string { return testGeneration() }

func (d dataset) First() []uint64 {
	first := []uint64{0}
	for _, keys := range d {
		first = append(first, first[len(first)-1]+uint64(len(keys)))
	}
	return first
}

func (d dataset) Keys(_ context.Context, chunk int, visit func(uint64, []byte)) error {
	for i, key := range d[chunk] {
		visit(d.First()[chunk]+uint64(i), []byte(key))
	}
	return nil
}

// testDataset returns a dataset with chunks of these sizes.
func testDataset(sizes ...int) dataset {
	var d dataset
	n := 0
	for _, size := range sizes {
		keys := []string{}
		for range size {
			keys = append(keys, fmt.Sprintf("photos/%05d", n))
			n++
		}
		d = append(d, keys)
	}
	return d
}

func newStore(t testing.TB) (*Store, *memstore.Store) {
	t.Helper()
	leaks.Check(t)
	st := memstore.New()
	s, err := New(Config{Reader: st, Writer: st, Prefix: "data/set/"})
	if err != nil {
		t.Fatal(err)
	}
	return s, st
}

func mustRule(t testing.TB, text, salt string) Rule {
	t.Helper()
	r, err := ParseRule(text, salt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// numbersOf returns the samples of a subset of a stored split.
func numbersOf(t testing.TB, s *Store, d dataset, digest, name string) []uint64 {
	t.Helper()
	x, err := s.OpenSubset(t.Context(), digest, name, d.Generation(), d.First())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var out []uint64
	for chunk := range d {
		b, err := x.Bitmap(t.Context(), chunk)
		if err != nil {
			t.Fatal(err)
		}
		for k := range d[chunk] {
			if b[k/8]>>(k%8)&1 == 1 {
				out = append(out, d.First()[chunk]+uint64(k))
			}
		}
		if got := x.Members()[chunk+1]; got != uint64(len(out)) {
			t.Fatalf("members up to chunk %d: got %d, want %d", chunk, got, len(out))
		}
	}
	if x.Samples() != uint64(len(out)) {
		t.Fatalf("samples: got %d, want %d", x.Samples(), len(out))
	}
	return out
}
