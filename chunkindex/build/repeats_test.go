package build_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// repeated writes the same tar under several names, like runs of img2dataset in which each run
// numbers its samples from 0.
func repeated(t *testing.T, samples, shards int) (store *memstore.Store, keys []string) {
	t.Helper()
	store = memstore.New()
	d := indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(samples, 5)})
	body := d.Bodies[0]
	store.Delete(t.Context(), d.Shards[0])
	for i := range shards {
		store.Set(fmt.Sprintf("%s%06d.tar", prefix, i), body)
	}
	return store, d.Keys
}

func TestRun_CountsRepeatedKeys(t *testing.T) {
	ctx := t.Context()
	store, keys := repeated(t, 600, 3) // three pages of hashes per shard
	rep := indexed(t, store, build.Options{ChunkSize: 64 << 10})
	if rep.Samples != 1800 || rep.RepeatedKeys != 600 || !slices.Contains(keys, rep.RepeatedKey) {
		t.Errorf("got %+v, want 600 keys that repeat", rep)
	}
	x, err := chunkindex.Open(ctx, store, prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for i, key := range keys {
		for shard := range 3 {
			name := fmt.Sprintf("%06d.tar", shard)
			n, ok, err := x.Lookup(ctx, key, name)
			if want := uint64(600*shard + i); err != nil || !ok || n != want {
				t.Fatalf("%s in %s: got %d, %v, %v, want %d", key, name, n, ok, err, want)
			}
		}
	}
	_, ok, err := x.Lookup(ctx, keys[7], "")
	var ambiguous *chunkindex.AmbiguousKeyError
	want := []string{"000000.tar", "000001.tar", "000002.tar"}
	if ok || !errors.As(err, &ambiguous) || !slices.Equal(ambiguous.Shards, want) || ambiguous.More {
		t.Errorf("without a shard: got %v, %v, want the shards %q", ok, err, want)
	}
	for _, c := range [][2]string{{keys[7], "000003.tar"}, {"none", "000000.tar"}, {"none", ""}, {keys[7], "000000"}} {
		if _, ok, err := x.Lookup(ctx, c[0], c[1]); ok || err != nil {
			t.Errorf("%q: got %v, %v, want none", c, ok, err)
		}
	}
}

// TestLookup_OneKeyInManyShards checks that a lookup of a key in very many shards costs no more
// than listing the shards in the error.
func TestLookup_OneKeyInManyShards(t *testing.T) {
	ctx := t.Context()
	const shards = 2000 // eight pages of records with the same hash
	store, keys := repeated(t, 1, shards)
	rep := indexed(t, store, build.Options{})
	if rep.RepeatedKeys != 1 || rep.RepeatedKey != keys[0] {
		t.Errorf("got %+v, want one key that repeats", rep)
	}
	x, err := chunkindex.Open(ctx, store, prefix, chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for _, shard := range []int{0, 254, 255, 256, 1000, shards - 1} {
		n, ok, err := x.Lookup(ctx, keys[0], fmt.Sprintf("%06d.tar", shard))
		if err != nil || !ok || n != uint64(shard) {
			t.Errorf("shard %d: got %d, %v, %v", shard, n, ok, err)
		}
	}
	_, _, err = x.Lookup(ctx, keys[0], "")
	var ambiguous *chunkindex.AmbiguousKeyError
	if !errors.As(err, &ambiguous) || len(ambiguous.Shards) != chunkindex.MaxShardsListed || !ambiguous.More {
		t.Errorf("without a shard: got %v, want %d shards and more", err, chunkindex.MaxShardsListed)
	}
}

// TestRun_RejectsDuplicateKeysInAShard checks that non-adjacent members with the same key are
// rejected, because a key must be unique in its shard.
func TestRun_RejectsDuplicateKeysInAShard(t *testing.T) {
	store, keys := repeated(t, 2, 2)
	body, _ := store.Bytes(prefix + "000001.tar")
	double := append(slices.Clone(body[:len(body)-1024]), body...)
	store.Set(prefix+"000001.tar", double)
	_, err := build.Run(t.Context(), store, prefix, build.Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("two samples in shard 000001.tar have the key %q", keys[0])) &&
		!strings.Contains(err.Error(), fmt.Sprintf("two samples in shard 000001.tar have the key %q", keys[1])) {
		t.Errorf("got %v, want one that names the shard and the key", err)
	}
}
