package build_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// shared writes a dataset with this number of shards.
func shared(t *testing.T, shards int) *memstore.Store {
	t.Helper()
	store := memstore.New()
	indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Random(shards*5, 0, 3000, 3), Shards: shards})
	return store
}

// share returns the options of a part.
func share(opt build.Options, part, parts int) build.Options {
	opt.Share.Part, opt.Share.Parts = part, parts
	return opt
}

// lacking runs the joining run, which must return a PartsError.
func lacking(t *testing.T, store objstore.Store, opt build.Options) *build.PartsError {
	t.Helper()
	_, err := build.Run(t.Context(), store, prefix, opt)
	e, ok := errors.AsType[*build.PartsError](err)
	if !ok {
		t.Fatalf("got %v, want what is missing", err)
	}
	return e
}

// asOneRun compares the stored objects, byte for byte, with the objects of runs without parts.
func asOneRun(t *testing.T, store *memstore.Store, all ...build.Options) {
	t.Helper()
	got := indextest.Beside(store)
	for k := range got {
		if err := store.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	for _, opt := range all {
		indexed(t, store, opt)
	}
	if want := indextest.Beside(store); !maps.Equal(got, want) {
		t.Errorf("got the objects %q, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestRun_JoinsParts runs parts concurrently, one of them twice. The joining run must publish the
// same bytes as a single run and read no shard.
func TestRun_JoinsParts(t *testing.T) {
	const shards, parts = 50, 7
	many := shared(t, shards)
	opt := build.Options{ChunkSize: 4 << 10}
	var group sync.WaitGroup
	for _, i := range []int{0, 1, 2, 3, 3, 4, 5, 6} {
		group.Go(func() {
			rep, err := build.Run(t.Context(), many, prefix, share(opt, i, parts))
			if want := (shards - i + parts - 1) / parts; err != nil || rep.Part == nil || rep.Part.Shards != want || rep.Generation != "" {
				t.Errorf("part %d: got %+v, %v, want %d shards", i, rep, err, want)
			}
		})
	}
	group.Wait()
	if _, err := chunkindex.Open(t.Context(), many, prefix, chunkindex.OpenOptions{}); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("before the join: got %v, want no index", err)
	}
	if rep := indexed(t, many, opt); rep.ReadBytes != 0 || rep.ReusedShards != shards || rep.Part != nil {
		t.Errorf("got %+v, want every shard taken from the parts", rep)
	}
	if rep := indexed(t, many, share(opt, 3, parts)); rep.ReadBytes != 0 {
		t.Errorf("a part after the join: got %+v, want nothing read", rep)
	}
	asOneRun(t, many, opt)
}

// TestRun_JoinReportsMissingParts checks that the joining run reports missing parts, or scans them
// if Rest is set.
func TestRun_JoinReportsMissingParts(t *testing.T) {
	const shards, parts = 50, 4
	many := shared(t, shards)
	opt := build.Options{ChunkSize: 4 << 10}
	opt.Share.Options = "--chunk-size 4KiB"
	for _, i := range []int{0, 2} {
		indexed(t, many, share(opt, i, parts))
	}
	e := lacking(t, many, opt)
	if !e.Same || e.Parts != parts || e.Shards != shards || len(e.Lacks) != 2 || e.Lacks[0].Part != 1 || e.Lacks[0].Shards != 13 || e.Lacks[1].Part != 3 || e.Lacks[1].Shards != 12 || e.Newer != 0 {
		t.Errorf("got %+v, want parts 1 and 3 missing", e)
	}
	indexed(t, many, share(opt, 3, parts))
	other := build.Options{ChunkSize: 8 << 10}
	if e := lacking(t, many, other); e.Same || len(e.Lacks) != parts || len(e.Other) != 1 || e.Other[0].Options != "--chunk-size 4KiB" {
		t.Errorf("other options: got %+v, want all parts missing, and the options of those that are there", e)
	}
	const changed = prefix + "shard-00002.tar"
	body, _ := many.Bytes(prefix + "shard-00006.tar")
	many.Set(changed, body)
	if e := lacking(t, many, opt); len(e.Lacks) != 2 || e.Lacks[1].Part != 2 || e.Lacks[1].Shards != 1 || e.Newer != 1 || e.After != "shard-00002.tar" {
		t.Errorf("a shard that changed: got %+v, want it named", e)
	}
	if rep := indexed(t, many, share(opt, 2, parts)); rep.ReadBytes != int64(len(body)) || rep.ReusedShards != 11 {
		t.Errorf("its part: got %+v, want this shard alone read", rep)
	}
	opt.Share.Rest = true
	if rep := indexed(t, many, opt); rep.ReusedShards != shards-13 {
		t.Errorf("the rest: got %+v, want 13 shards read", rep)
	}
	asOneRun(t, many, opt)
}

// TestRun_PartResumesAfterEachRequest checks that a part that ends at any request can be repeated.
// The joined index must equal the index of a single run.
func TestRun_PartResumesAfterEachRequest(t *testing.T) {
	opt := build.Options{ChunkSize: 4 << 10, Parallel: 1}
	for n := 0; ; n++ {
		many := shared(t, 9)
		indexed(t, many, share(opt, 1, 2))
		calls := 0
		many.SetFault(func(memstore.Call) memstore.Fault {
			if calls++; calls > n {
				return memstore.Fault{Err: objstore.ErrUnavailable}
			}
			return memstore.Fault{}
		})
		_, err := build.RunKeeping(t.Context(), many, prefix, share(opt, 0, 2), 1<<40, 2)
		many.SetFault(nil)
		if err != nil {
			if e := lacking(t, many, opt); e.Lacks[0].Part != 0 {
				t.Fatalf("ended at %d: got %+v, want part 0 missing", n, e)
			}
			indexed(t, many, share(opt, 0, 2))
		}
		if rep := indexed(t, many, opt); rep.ReadBytes != 0 {
			t.Fatalf("ended at %d: got %+v, want no shard read", n, rep)
		}
		asOneRun(t, many, opt)
		if err == nil {
			if n < 10 {
				t.Fatalf("the whole part took %d requests", n)
			}
			return
		}
	}
}

// TestRun_PartsOfNamedIndexes checks that the parts of a named index and of the default index do
// not affect one another.
func TestRun_PartsOfNamedIndexes(t *testing.T) {
	many := shared(t, 12)
	named := build.Options{ChunkSize: 4 << 10, Name: "few", Match: "shard-0000[0-5].tar"}
	all := build.Options{ChunkSize: 8 << 10}
	for i := range 3 {
		indexed(t, many, share(named, i, 3))
	}
	if rep := indexed(t, many, all); rep.ReusedShards != 0 {
		t.Errorf("the default index: got %+v, want all shards read", rep)
	}
	if rep := indexed(t, many, named); rep.ReadBytes != 0 {
		t.Errorf("got %+v, want the scans of the parts used", rep)
	}
	asOneRun(t, many, all, named)
}

// TestFindUnused_ScansOfParts checks that gc removes the scans of parts that are never joined.
func TestFindUnused_ScansOfParts(t *testing.T) {
	many := shared(t, 4)
	opt := build.Options{}
	indexed(t, many, opt)
	opt.ChunkSize = 4 << 10
	indexed(t, many, share(opt, 0, 2))
	keys, err := collect(t.Context(), many, prefix, 0)
	if n := len(keys); err != nil || n != 2 || !strings.HasPrefix(keys[0], kept) || !strings.HasPrefix(keys[1], kept) {
		t.Errorf("got %q removed, %v, want the scans and their note", keys, err)
	}
}
