package build

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// TestOther_IgnoresUnusableIndexes checks that other ignores an index if it is missing, damaged,
// newer or of other data. It must return store errors.
func TestOther_IgnoresUnusableIndexes(t *testing.T) {
	base, rep := indexedTars(t)
	text := string(shards.Bytes(t, base, layout.PointerKey))
	index, binding := layout.IndexObject("", rep.Generation), ""
	for _, key := range base.Keys() {
		if strings.HasPrefix(key, layout.BindingDir) {
			binding = key
		}
	}
	fails := func(key string, op memstore.Op, err error) func(store *memstore.Store) {
		return func(store *memstore.Store) {
			store.SetFault(func(c memstore.Call) memstore.Fault {
				if c.Key == key && c.Op == op {
					return memstore.Fault{Err: err}
				}
				return memstore.Fault{}
			})
		}
	}
	flip := func(key string) func(store *memstore.Store) {
		return func(store *memstore.Store) {
			b := bytes.Clone(shards.Bytes(t, store, key))
			b[len(b)/2] ^= 1
			store.Set(key, b)
		}
	}
	remove := func(key string) func(store *memstore.Store) {
		return func(store *memstore.Store) {
			if err := store.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(store *memstore.Store)
		opens  bool
		want   error
	}{
		"sound":         {func(*memstore.Store) {}, true, nil},
		"no pointer":    {remove(layout.PointerKey + "-n"), false, nil},
		"newer pointer": {func(store *memstore.Store) { store.Set(layout.PointerKey+"-n", []byte(`{"version":99}`)) }, false, nil},
		"other data": {func(store *memstore.Store) {
			store.Set(layout.PointerKey+"-n", []byte(strings.Replace(text, "{", `{"data":"s3://b",`, 1)))
		}, false, nil},
		"no index":            {remove(index), false, nil},
		"damaged index":       {flip(index), false, nil},
		"no binding":          {remove(binding), false, nil},
		"damaged binding":     {flip(binding), false, nil},
		"pointer unavailable": {fails(layout.PointerKey+"-n", memstore.Read, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"index unavailable":   {fails(index, memstore.Read, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"index denied":        {fails(index, memstore.Stat, objstore.ErrDenied), false, objstore.ErrDenied},
		"binding unavailable": {fails(binding, memstore.Read, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"binding denied":      {fails(binding, memstore.Stat, objstore.ErrDenied), false, objstore.ErrDenied},
	} {
		store := shards.Copy(base)
		store.Set(layout.PointerKey+"-n", []byte(text))
		b, err := newBuilder(store, "", Options{TempDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		c.change(store)
		x, err := b.other(t.Context(), "n")
		if !errors.Is(err, c.want) || (x != nil) != c.opens {
			t.Errorf("%s: got an index: %v, %v, want %v", name, x != nil, err, c.want)
		}
		if x != nil {
			x.Close()
		}
		if n := store.InFlight(); n != 0 {
			t.Errorf("%s: %d requests have not ended", name, n)
		}
	}
}
