package chunkindex

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// TestOther_PassesOverIndexesThatCannotBeUsed: what is missing, damaged, newer or of other data is passed over; a fault of the store is not.
func TestOther_PassesOverIndexesThatCannotBeUsed(t *testing.T) {
	base, rep := smallStore(t)
	text := string(mustBytes(t, base, pointerKey))
	index, binding := indexObject("", rep.Generation), ""
	for _, key := range base.Keys() {
		if strings.HasPrefix(key, bindingDir) {
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
			b := bytes.Clone(mustBytes(t, store, key))
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
		"no pointer":    {remove(pointerKey + "-n"), false, nil},
		"newer pointer": {func(store *memstore.Store) { store.Set(pointerKey+"-n", []byte(`{"version":99}`)) }, false, nil},
		"other data": {func(store *memstore.Store) {
			store.Set(pointerKey+"-n", []byte(strings.Replace(text, "{", `{"data":"s3://b",`, 1)))
		}, false, nil},
		"no index":            {remove(index), false, nil},
		"damaged index":       {flip(index), false, nil},
		"no binding":          {remove(binding), false, nil},
		"damaged binding":     {flip(binding), false, nil},
		"pointer unavailable": {fails(pointerKey+"-n", memstore.Read, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"index unavailable":   {fails(index, memstore.Open, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"index denied":        {fails(index, memstore.Stat, objstore.ErrDenied), false, objstore.ErrDenied},
		"binding unavailable": {fails(binding, memstore.Read, objstore.ErrUnavailable), false, objstore.ErrUnavailable},
		"binding denied":      {fails(binding, memstore.Stat, objstore.ErrDenied), false, objstore.ErrDenied},
	} {
		store := copied(base)
		store.Set(pointerKey+"-n", []byte(text))
		b, err := newBuilder(store, "", BuildOptions{TempDir: t.TempDir()})
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

// TestPages_ReadStaysInItsSections, and ReadAt ends at their end.
func TestPages_ReadStaysInItsSections(t *testing.T) {
	_, x := partlyStored(t)
	p := x.pages
	for _, c := range []struct {
		off, n int64
		ok     bool
	}{
		{p.begin, 1, true}, {p.begin, p.end - p.begin, true}, {p.end - 1, 1, true}, {p.end, 0, true},
		{p.begin - 1, 1, false}, {p.begin - 1, 0, false}, {p.end, 1, false}, {p.end - 1, 2, false}, {p.end + 1, 0, false}, {-1, 1, false},
	} {
		if err := p.read(t.Context(), c.off, make([]byte, c.n)); (err == nil) != c.ok || err != nil && !errors.Is(err, errMalformed) {
			t.Errorf("[%d, +%d) of [%d, %d): got %v, want accepted: %v", c.off, c.n, p.begin, p.end, err, c.ok)
		}
	}
	want := make([]byte, 10)
	if err := p.read(t.Context(), p.end-10, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if n, err := p.ReadAt(got, p.end-10); n != 10 || err == nil || errors.Is(err, errMalformed) || !bytes.Equal(got[:10], want) {
		t.Errorf("past the end: got %d bytes, %v", n, err)
	}
	if n, err := p.ReadAt(got[:10], p.end-10); n != 10 || err != nil {
		t.Errorf("to the end: got %d bytes, %v", n, err)
	}
}
