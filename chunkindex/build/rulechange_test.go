package build

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/webdataset"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// buildLater indexes as a later release does, whose scanner has other rules.
func buildLater(t *testing.T, store *memstore.Store) (Report, error) {
	t.Helper()
	b, err := newBuilder(store, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	later := webdataset.Format()
	later.Changes++
	b.formats = []format.Format{later}
	err = b.run(t.Context())
	return b.report, err
}

// A scanner of other rules uses neither the index nor the kept scans of the one before it, and takes the scans away.
func TestOtherRulesReuseNothing(t *testing.T) {
	store, _ := indexedTars(t)
	interrupted(t, store)
	rep, err := buildLater(t, store)
	if err != nil || rep.ReusedShards != 0 || rep.ReadBytes != rep.Bytes {
		t.Errorf("after an index and scans of older rules: got %+v, %v, want all read anew", rep, err)
	}
	for _, k := range store.Keys() {
		if strings.HasPrefix(k, layout.ScanDir) {
			t.Errorf("%s is left", k)
		}
	}
	if rep, err = buildLater(t, store); err != nil || !rep.Unchanged || rep.ReadBytes != 0 {
		t.Errorf("the same rules again: got %+v, %v", rep, err)
	}
}

// interrupted leaves the scans of all shards in the store, an object for each, as a run does that dies before it publishes.
func interrupted(t *testing.T, store *memstore.Store) {
	t.Helper()
	saved, had := store.Bytes(layout.PointerKey)
	store.Delete(t.Context(), layout.PointerKey)
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put && c.Key == layout.PointerKey {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if _, err := RunKeeping(t.Context(), store, "", Options{Parallel: 1}, 1<<40, 1); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("got %v, want %v", err, objstore.ErrUnavailable)
	}
	store.SetFault(nil)
	if had {
		store.Set(layout.PointerKey, saved)
	}
}
