package pack

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// part returns options for part i of n parts.
func part(opt Options, i, n int) Options {
	opt.Share = build.Share{Part: i, Parts: n}
	return opt
}

// TestPartsMakeOneSetOfShards runs parts in parallel, one of them twice, and then a run that joins
// them. The joining run must store no shard.
func TestPartsMakeOneSetOfShards(t *testing.T) {
	const parts = 3
	dir, whole, store := tree(t, photos(60)), memstore.New(), memstore.New()
	opt := Options{ShardSize: 20 << 10, Parallel: 2}
	one := mustPack(t, whole, opt, dir)
	var group sync.WaitGroup
	for _, i := range []int{0, 1, 1, 2} {
		group.Go(func() {
			r, err := Pack(t.Context(), []string{dir}, store, "out", part(opt, i, parts))
			if want := (one.Shards - i + parts - 1) / parts; err != nil || r.Part == nil || r.Part.Shards != want || len(r.Names) != want {
				t.Errorf("part %d: got %+v, %v, want %d shards", i, r, err, want)
			}
		})
	}
	group.Wait()
	k := &kill{left: 1 << 30, uploads: map[string]int{}}
	r, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out", opt)
	if err != nil || len(k.uploads) != 0 || r.ReusedShards != one.Shards {
		t.Errorf("got %+v, %v, %v stored, want all shards found", r, err, k.uploads)
	}
	if !same(shards(whole), shards(store)) {
		t.Error("the shards differ from those of one run")
	}
	for _, key := range store.Keys() {
		if strings.Count(key, "/") > 3 {
			t.Errorf("%s is left", key)
		}
	}
}

// TestSecondMachineReplacesNothing lets one machine finish a whole part while another is about to
// store the first shard of the same part. The slower machine is killed before it writes a note. If
// it replaced a shard, the joining run would not recognise that shard.
func TestSecondMachineReplacesNothing(t *testing.T) {
	dir, store := tree(t, photos(60)), memstore.New()
	opt := Options{ShardSize: 20 << 10, Parallel: 1}
	mustPack(t, store, part(opt, 1, 2), dir)
	versions := func() map[string]string {
		all := map[string]string{}
		for key := range shards(store) {
			obj, err := store.Stat(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			all[key] = obj.ETag
		}
		return all
	}
	var first map[string]string // objects that the faster machine stored
	slower := &hooked{store, func(key string) error {
		switch {
		case !strings.HasSuffix(key, ".tar"):
			return errKilled
		case first == nil:
			mustPack(t, store, part(opt, 0, 2), dir)
			first = versions()
		}
		return nil
	}}
	if _, err := Pack(t.Context(), []string{dir}, slower, "out", part(opt, 0, 2)); !errors.Is(err, errKilled) {
		t.Fatalf("the slower machine: got %v, want %v", err, errKilled)
	}
	if now := versions(); !maps.Equal(now, first) {
		t.Errorf("got versions %v, want those of the faster machine: %v", now, first)
	}
	if r := mustPack(t, store, opt, dir); r.ReusedShards != r.Shards {
		t.Errorf("the join: got %+v, want no shard packed", r)
	}
}

// TestPartReplacesShardsOfOlderFiles changes the content of a file, but not its length, after a
// part has packed it.
func TestPartReplacesShardsOfOlderFiles(t *testing.T) {
	files := photos(60)
	dir, store := tree(t, files), memstore.New()
	opt := Options{ShardSize: 20 << 10}
	for i := range 2 {
		mustPack(t, store, part(opt, i, 2), dir)
	}
	for name, text := range files {
		files[name] = strings.ToUpper(text)
	}
	newer, whole := tree(t, files), memstore.New()
	mustPack(t, whole, opt, newer)
	for i := range 2 {
		mustPack(t, store, part(opt, i, 2), newer)
	}
	if r := mustPack(t, store, opt, newer); r.ReusedShards != r.Shards || !same(shards(whole), shards(store)) {
		t.Errorf("got %+v, want the shards of the newer files", r)
	}
}

// TestMissingPartsAreNamed checks that a joining run fails until the part is finished or Rest is
// set.
func TestMissingPartsAreNamed(t *testing.T) {
	dir, store := tree(t, photos(60)), memstore.New()
	opt := Options{ShardSize: 20 << 10}
	for _, i := range []int{0, 2} {
		mustPack(t, store, part(opt, i, 3), dir)
	}
	_, err := Pack(t.Context(), []string{dir}, store, "out", opt)
	e, ok := errors.AsType[*build.PartsError](err)
	if !ok || e.Parts != 3 || len(e.Lacks) != 1 || e.Lacks[0].Part != 1 || e.Lacks[0].Example == "" {
		t.Fatalf("got %v, want an error that names part 1", err)
	}
	rest := opt
	rest.Share.Rest = true
	if r := mustPack(t, store, rest, dir); r.ReusedShards != r.Shards-e.Lacks[0].Shards {
		t.Errorf("got %+v, want %d shards packed", r, e.Lacks[0].Shards)
	}
	if r := mustPack(t, store, opt, dir); r.ReusedShards != r.Shards {
		t.Errorf("after the join: got %+v, want that of one run", r)
	}
}

// TestPack_PartResumesAfterKillAtEachPut runs a killed part again. It must resume.
func TestPack_PartResumesAfterKillAtEachPut(t *testing.T) {
	dir, whole := tree(t, photos(60)), memstore.New()
	opt := Options{ShardSize: 20 << 10, Parallel: 1}
	r := mustPack(t, whole, opt, dir)
	for puts := range 1 + r.Shards { // a part of two writes a note for each of its shards
		store := memstore.New()
		mustPack(t, store, part(opt, 1, 2), dir)
		k := &kill{left: puts, uploads: map[string]int{}}
		_, err := Pack(t.Context(), []string{dir}, &hooked{store, k.before}, "out", part(opt, 0, 2))
		if err == nil {
			if puts < 4 {
				t.Errorf("the part took %d puts", puts)
			}
			return
		}
		if _, err := Pack(t.Context(), []string{dir}, store, "out", opt); err == nil {
			t.Errorf("killed after %d: the join of missing parts gave no error", puts)
		}
		mustPack(t, store, part(opt, 0, 2), dir)
		if r := mustPack(t, store, opt, dir); r.ReusedShards != r.Shards || !same(shards(whole), shards(store)) {
			t.Errorf("killed after %d: got %+v, want the shards of one run", puts, r)
		}
	}
}

// TestPack_StartsOverWhenAnotherRunCrossesItsStart lets another run write the state, and remove the
// notes, at each step of a run's start.
func TestPack_StartsOverWhenAnotherRunCrossesItsStart(t *testing.T) {
	dir := tree(t, photos(60))
	opt := Options{ShardSize: 20 << 10, Parallel: 1}
	first := memstore.New()
	shards := mustPack(t, first, opt, dir).Shards
	stateKey := slices.DeleteFunc(first.Keys(), func(key string) bool { return !strings.Contains(key, own) })[0]
	for _, tc := range []struct {
		name    string
		before  func(t *testing.T, s *memstore.Store) // the concurrent run
		on      func(op, key string) bool             // the operation before which the concurrent run executes
		crossed func(t *testing.T, s *memstore.Store)
		reused  int
	}{
		{"stored before it is created", nil,
			func(op, key string) bool { return op == "put" && key == stateKey },
			func(t *testing.T, s *memstore.Store) { mustPack(t, s, opt, dir) }, shards},
		{"replaced before it is read", func(t *testing.T, s *memstore.Store) { mustPack(t, s, part(opt, 0, 2), dir) },
			func(op, key string) bool { return op == "read" && key == stateKey },
			func(t *testing.T, s *memstore.Store) { mustPack(t, s, rest(opt), dir) }, shards},
		{"notes removed before they are read", func(t *testing.T, s *memstore.Store) { mustPack(t, s, part(opt, 0, 2), dir) },
			func(op, key string) bool { return op == "read" && key != stateKey },
			func(t *testing.T, s *memstore.Store) { mustPack(t, s, rest(opt), dir) }, shards},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, crossings := memstore.New(), 0
			if tc.before != nil {
				tc.before(t, store)
			}
			run := &crossed{store, func(op, key string) {
				if tc.on(op, key) && crossings == 0 {
					crossings++
					tc.crossed(t, store)
				}
			}}
			r, err := Pack(t.Context(), []string{dir}, run, "out", opt)
			if err != nil || r.ReusedShards != tc.reused || crossings != 1 {
				t.Errorf("got %+v, %v, %d crossings, want %d shards found", r, err, crossings, tc.reused)
			}
		})
	}
}

// rest returns the options of a run that also packs the missing parts.
func rest(opt Options) Options {
	opt.Share.Rest = true
	return opt
}

// crossed is a store that calls the function before at the start of each write and each ranged
// read.
type crossed struct {
	*memstore.Store
	before func(op, key string)
}

func (c *crossed) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	c.before("put", key)
	return c.Store.Put(ctx, key, body, size, cond)
}

func (c *crossed) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, bufs ...[]byte) error {
	c.before("read", ref.Key)
	return c.Store.ReadRange(ctx, ref, offset, bufs...)
}
