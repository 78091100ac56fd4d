package chunkindex

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// keepAllCache is a TableCache that never evicts.
type keepAllCache map[CacheKey]Cached

func (k keepAllCache) Get(key CacheKey) (Cached, bool) { c, ok := k[key]; return c, ok }
func (k keepAllCache) Add(key CacheKey, c Cached)      { k[key] = c }
func (k keepAllCache) Close()                          { clear(k) }

// TestIndex_CachesDetails checks that the details of a chunk are read once and then cached, and
// that PartNames adds nothing to the cache.
func TestIndex_CachesDetails(t *testing.T) {
	store := memstore.New()
	for _, name := range []string{"a.jpg", "b.png", "c.jpg"} {
		if _, err := store.Put(t.Context(), name, bytes.NewReader([]byte(name)), int64(len(name)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := IndexShards(t.Context(), store, "", IndexOptions{}); err != nil {
		t.Fatal(err)
	}
	kept := keepAllCache{}
	x, err := Open(t.Context(), store, "", OpenOptions{CacheDir: t.TempDir(), Tables: kept})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	all, err := x.PartNames(t.Context(), 0)
	if slices.Sort(all); err != nil || !slices.Equal(all, []string{"jpg", "png"}) || len(kept) != 0 {
		t.Fatalf("got names %q, %v, with %d things kept, want jpg and png, and none", all, err, len(kept))
	}
	names, err := x.Names(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := x.Parts(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a.jpg", "b.png", "c.jpg"} {
		p := parts.Append(nil, i)
		if len(p) != 1 || names.Key(i)+"."+p[0].Ext != want || p[0].Offset != 0 || p[0].Length != 5 {
			t.Errorf("sample %d: got key %q and parts %+v, want %s", i, names.Key(i), p, want)
		}
	}
	before := maps.Clone(kept)
	if n := names.Bytes() + parts.Bytes(); len(kept) != 3 || n < int64(len("abc")+len("jpgpng")+3*(4+16+4)) {
		t.Errorf("got %d things kept, %d bytes, want table, names and parts, and what they hold", len(kept), n)
	}
	if again, err := x.Names(t.Context(), 0); err != nil || again != names {
		t.Errorf("got the names %p, %v, want those that are kept, %p", again, err, names)
	}
	if again, err := x.Parts(t.Context(), 0); err != nil || again != parts || !maps.Equal(before, kept) {
		t.Errorf("got the parts %p, %v, want those that are kept, %p", again, err, parts)
	}
}
