package build

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestNoteOwner_NotesEachIndexOfAGeneration checks that noteOwner writes an owner object for each
// index of a generation. If the generation had none, that includes the default index.
func TestNoteOwner_NotesEachIndexOfAGeneration(t *testing.T) {
	g := strings.Repeat("ab", 32)
	for _, c := range []struct {
		name    string
		there   bool     // the index object already exists
		owners  []string // existing notes
		want    []string
		refuses []string
	}{
		{"", false, nil, nil, []string{"a"}},
		{"", true, nil, nil, []string{"a"}},
		{"a", false, nil, []string{"a"}, []string{"", "b"}},
		{"a", true, nil, []string{"", "a"}, []string{"b"}},
		{"a", true, []string{"b"}, []string{"a", "b"}, []string{"", "c"}},
		{"", true, []string{"b"}, []string{"", "b"}, []string{"a"}},
		{"b", true, []string{"b"}, []string{"b"}, []string{"", "a"}},
	} {
		store := memstore.New()
		for _, name := range c.owners {
			store.Set(layout.OwnerObject("p/", g, name), []byte("x"))
		}
		if c.there {
			store.Set(layout.IndexObject("p/", g), []byte("x"))
		}
		p := &publisher{store: store, prefix: "p/", name: c.name}
		if err := p.noteOwner(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		got, err := layout.Owners(t.Context(), store, "p/", g)
		if slices.Sort(got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
		accepted := c.want
		if accepted == nil {
			accepted = []string{""}
		}
		for _, name := range accepted {
			if err := layout.CheckOwner(t.Context(), store, "p/", name, g); err != nil {
				t.Errorf("%+v: %q: got %v", c, name, err)
			}
		}
		for _, name := range c.refuses {
			if err := layout.CheckOwner(t.Context(), store, "p/", name, g); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("%+v: %q: got %v, want %v", c, name, err, objstore.ErrNotFound)
			}
		}
	}
}

// TestNoteOwner_ReturnsEachFault checks that noteOwner and CheckOwner return store errors.
func TestNoteOwner_ReturnsEachFault(t *testing.T) {
	g := strings.Repeat("ab", 32)
	for _, op := range []memstore.Op{memstore.List, memstore.Stat, memstore.Put} {
		for _, want := range []error{objstore.ErrUnavailable, objstore.ErrDenied} {
			for last := range 2 { // number of the failing request: for puts, the first or the second one
				store := memstore.New()
				store.Set(layout.IndexObject("p/", g), []byte("x"))
				n := 0
				store.SetFault(func(c memstore.Call) memstore.Fault {
					if c.Op != op {
						return memstore.Fault{}
					}
					if n++; op == memstore.Put && n != last+1 {
						return memstore.Fault{}
					}
					return memstore.Fault{Err: want}
				})
				p := &publisher{store: store, prefix: "p/", name: "a"}
				if err := p.noteOwner(t.Context(), g); !errors.Is(err, want) {
					t.Errorf("%s: got %v, want %v", op, err, want)
				}
				if err := layout.CheckOwner(t.Context(), store, "p/", "", g); op == memstore.List && !errors.Is(err, want) {
					t.Errorf("checked: got %v, want %v", err, want)
				}
			}
		}
	}
}
