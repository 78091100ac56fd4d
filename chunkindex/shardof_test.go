package chunkindex

import (
	"bytes"
	"os"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// shapes returns stores whose indexes cover all layouts of samples in shards.
func shapes(t *testing.T) map[string]*memstore.Store {
	t.Helper()
	all := map[string]*memstore.Store{}
	add := func(name string, opt IndexOptions, store *memstore.Store) {
		if _, err := IndexShards(t.Context(), store, "", opt); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = store
	}
	loose := memstore.New()
	shards.Photos(loose, 40)
	add("loose objects", IndexOptions{ChunkSize: 100}, loose)
	archives, _ := smallStore(t)
	archives.Set("ab.tar", make([]byte, 1024)) // a shard without samples, between shards with samples
	add("archives", IndexOptions{ChunkSize: 1}, archives)
	all["compressed archives"] = packedStore(t)
	lines, _ := linesStore(t, 500)
	all["lines"] = lines
	columns := memstore.New()
	table, err := os.ReadFile("codec/rowgroup/testdata/checksums.parquet")
	if err != nil {
		t.Fatal(err)
	}
	columns.Set("a.parquet", table)
	columns.Set("b.parquet", table)
	opt := IndexOptions{ChunkSize: 1}
	opt.Hints.Fields = []string{"text", "int32"}
	add("some columns", opt, columns)
	tokens := memstore.New()
	tokens.Set("a.bin", bytes.Repeat([]byte{1, 2, 3, 4}, 20))
	tokens.Set("b.bin", bytes.Repeat([]byte{1, 2, 3, 4}, 30))
	opt = IndexOptions{ChunkSize: 24, Format: "tokens"}
	opt.Hints.SequenceLength, opt.Hints.DType = 5, "<u2"
	add("tokens", opt, tokens)
	return all
}

// TestShardOf_IsTheShardOfTheSamplesExtent compares the results of ShardOf and of lookups by shard
// with the extents of each sample.
func TestShardOf_IsTheShardOfTheSamplesExtent(t *testing.T) {
	for name, store := range shapes(t) {
		x, err := Open(t.Context(), store, "", OpenOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		samples := make([][]uint64, x.Shards()) // by shard
		for c := range x.Chunks() {
			table, err := x.Table(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for i := range table.Len() {
				off := table.Offset(i)
				sample, shard := x.Chunk(c).First+uint64(i), Locate(x.Chunk(c), x.Extents(c), int64(off)).Shard
				samples[shard] = append(samples[shard], sample)
				if got := x.ShardOf(sample); got != shard || x.ShardKey(sample) != x.Shard(shard).Key {
					t.Errorf("%s: sample %d: got shard %d, want %d", name, sample, got, shard)
				}
				key, err := x.Key(t.Context(), sample)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for other := range x.Shards() {
					at, ok, err := x.Lookup(t.Context(), key, x.Shard(other).Key)
					if err != nil || ok != (other == shard) || ok && at != sample {
						t.Errorf("%s: key %q in shard %d: got %d, %v, %v, want it only in shard %d, as %d", name, key, other, at, ok, err, shard, sample)
					}
				}
			}
		}
		next := uint64(0)
		for shard, want := range samples {
			from, to := x.firstOf(shard), x.firstOf(shard+1)
			if from != next || to != from+uint64(len(want)) {
				t.Errorf("%s: shard %d: got samples [%d, %d), want %v", name, shard, from, to, want)
			}
			next = to
		}
		x.Close()
	}
}
