package chunkindex

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// IndexNames ignores keys that are not pointer keys with a valid index name.
func TestIndexNames_ListsOnlyPointers(t *testing.T) {
	store := memstore.New()
	long := strings.Repeat("n", 64)
	for _, key := range []string{"", "-b", "-a.b_c-1", "-" + long, "-" + long + "n", "-", "-B", "-a/b", "s", "ly-a", "-ä"} {
		store.Set("p/"+layout.PointerKey+key, []byte("x"))
	}
	got, err := IndexNames(t.Context(), store, "p/")
	if want := []string{"", "a.b_c-1", "b", long}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, c := range []struct {
		name string
		has  []string
		want string
	}{
		{"", nil, "no index here yet"},
		{"a", nil, "no index here yet"},
		{"", []string{"a", "b"}, "there is no default index, only #a, #b: append one of these names to the address"},
		{"c", []string{"", "b"}, "there is no index #c, only the default one, #b"},
	} {
		e := &NoIndexError{Name: c.name, Has: c.has}
		if e.Error() != c.want || !errors.Is(e, objstore.ErrNotFound) {
			t.Errorf("%q of %q: got %v, want %s", c.name, c.has, e, c.want)
		}
	}
	// The error for a damaged pointer names the pointer's key.
	if _, err := readPointers(t.Context(), store, "p/"); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "p/"+layout.PointerKey+": ") {
		t.Errorf("got %v, want the damaged pointer", err)
	}
	if _, err := readPointers(t.Context(), store, "q/"); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("without a pointer: got %v, want %v", err, objstore.ErrNotFound)
	}
}
