package build_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// named builds a named index of the matching shards.
func named(t *testing.T, s objstore.Store, name, match string) build.Report {
	t.Helper()
	opt := spec().Build
	opt.Name, opt.Match = name, match
	return indexed(t, s, opt)
}

// opened opens an index until the test ends.
func opened(t *testing.T, s objstore.Store, opt chunkindex.OpenOptions) *chunkindex.Index {
	t.Helper()
	x, err := chunkindex.Open(t.Context(), s, prefix, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

// TestRun_SeveralIndexesOfOnePrefix checks that the indexes of one prefix have their own shards, do
// not replace one another, and read no shard twice.
func TestRun_SeveralIndexesOfOnePrefix(t *testing.T) {
	store := memstore.New()
	all := indextest.Make(t, store, spec()).Report
	low := named(t, store, "low", "shard-0000[01]*")
	if low.ReadBytes != 0 || low.ReusedShards != 2 || low.Shards != 2 || low.Name != "low" {
		t.Errorf("shards of the default index: got %+v, want two, none of them read", low)
	}
	high := named(t, store, "high", "shard-0000[123]*")
	if high.ReadBytes != 0 || high.ReusedShards != 3 {
		t.Errorf("shards of two indexes: got %+v, want three, none of them read", high)
	}
	for name, want := range map[string]build.Report{"": all, "low": low, "high": high} {
		x := opened(t, store, chunkindex.OpenOptions{Name: name})
		if x.Generation() != want.Generation || x.Samples() != want.Samples || x.Shards() != want.Shards {
			t.Errorf("index %q: got generation %s of %d samples, want %s of %d", name, x.Generation(), x.Samples(), want.Generation, want.Samples)
		}
		if same, err := x.IsCurrent(t.Context(), store, prefix); !same || err != nil {
			t.Errorf("index %q: got current %v, %v", name, same, err)
		}
	}
	// In a new prefix, the second index reuses the scans of the first index.
	fresh := memstore.New()
	for _, key := range store.Keys() {
		if b, _ := store.Bytes(key); strings.HasSuffix(key, ".tar") {
			fresh.Set(key, b)
		}
	}
	first, second := named(t, fresh, "low", "shard-0000[01]*"), named(t, fresh, "high", "shard-0000[123]*")
	if first.ReadBytes != low.Bytes || second.ReusedShards != 1 || second.Generation != high.Generation {
		t.Errorf("got %+v and %+v, want the shard of both read once", first, second)
	}
}

func TestOpen_MissingIndexListsOthers(t *testing.T) {
	store := memstore.New()
	indextest.Write(t, store, spec())
	refused := func(name string, has []string, text string) {
		t.Helper()
		_, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{Name: name})
		none, ok := errors.AsType[*chunkindex.NoIndexError](err)
		if !ok || !errors.Is(err, objstore.ErrNotFound) || !slices.Equal(none.Has, has) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want not found and %q", err, text)
		}
	}
	refused("trian", nil, "no index here yet")
	named(t, store, "train", "shard-0000[012]*")
	refused("", []string{"train"}, "there is no default index, only #train: append one of these names to the address")
	named(t, store, "val", "shard-00003*")
	refused("trian", []string{"train", "val"}, "there is no index #trian, only #train, #val")
	named(t, store, "", "")
	refused("trian", []string{"", "train", "val"}, "there is no index #trian, only the default one, #train, #val")
	for _, name := range []string{"Train", "a/b", "a b", strings.Repeat("n", 65)} {
		if _, err := build.Run(t.Context(), store, prefix, build.Options{Name: name}); err == nil || !strings.Contains(err.Error(), "lower-case letters") {
			t.Errorf("name %q: got %v, want it refused", name, err)
		}
	}
}

// TestOpen_GenerationsBelongToTheirIndex checks that access to one index of a prefix does not
// extend to the generations of another index.
func TestOpen_GenerationsBelongToTheirIndex(t *testing.T) {
	store := memstore.New()
	all := indextest.Make(t, store, spec()).Report.Generation
	old := named(t, store, "train", "shard-00000*").Generation
	now := named(t, store, "train", "shard-0000[01]*").Generation
	val := named(t, store, "val", "shard-00003*").Generation
	both := named(t, store, "copy", "").Generation // has the same shards as the default index
	if both != all {
		t.Fatalf("got generations %s and %s of the same shards", both, all)
	}
	later := named(t, store, "", "shard-00002*").Generation
	for _, c := range []struct {
		name, generation string
		reached          bool
	}{
		{"train", old, true},
		{"train", now, true},
		{"train", val, false},
		{"train", all, false},
		{"val", val, true},
		{"val", old, false},
		{"", all, true},
		{"copy", all, true},
		{"", later, true},
		{"", old, false},
		{"val", later, false},
	} {
		x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{Name: c.name, Generation: c.generation})
		if (err == nil) != c.reached || err != nil && !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("generation %.12s as one of %q: got %v, want reached %v", c.generation, c.name, err, c.reached)
		}
		if err == nil {
			x.Close()
		}
	}
}

// TestRun_KeepsScansOfAnotherRun checks that a run for one index does not remove the scans that an
// interrupted run for another index has stored.
func TestRun_KeepsScansOfAnotherRun(t *testing.T) {
	store := memstore.New()
	indextest.Write(t, store, spec())
	key := prefix + ".millrace/scan/" + strings.Repeat("0", 64)
	left := func() bool { _, ok := store.Bytes(key); return ok }
	store.Set(key, []byte("scans"))
	named(t, store, "train", "shard-00000*")
	if !left() {
		t.Error("a run for a named index removed the scans of another run")
	}
	named(t, store, "", "")
	if !left() {
		t.Error("a run with a named index in the prefix removed the scans of another run")
	}
	lone := memstore.New()
	indextest.Write(t, lone, spec())
	lone.Set(key, []byte("scans"))
	named(t, lone, "", "")
	if _, ok := lone.Bytes(key); ok {
		t.Error("the one index of a prefix leaves old scans behind")
	}
}
