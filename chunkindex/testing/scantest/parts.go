package scantest

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// Parts runs an index of the dataset as two parts, and then a run that joins them. The joining run
// must read no shard. It must write the same objects, byte for byte, as one run without parts.
func Parts(t *testing.T, d Dataset) {
	t.Helper()
	store := memstore.New()
	for _, key := range slices.Sorted(maps.Keys(d.Objects)) {
		b := d.Objects[key]
		if _, err := store.Put(t.Context(), key, bytes.NewReader(b), int64(len(b)), objstore.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	opt := build.Options{Format: d.Format.Name, Hints: d.Options, ChunkSize: 1 << 10}
	run := func(share build.Share) build.Report {
		opt.Share = share
		r, err := build.Run(t.Context(), store, "", opt)
		if err != nil {
			t.Fatalf("%+v: %v", share, err)
		}
		return r
	}
	left := 0
	for i := range 2 {
		left += run(build.Share{Part: i, Parts: 2}).Part.Shards
	}
	joined := run(build.Share{})
	if left != joined.Shards || joined.ReusedShards != left || joined.ReadBytes != 0 {
		t.Errorf("got %d shards of two parts, and %+v joined, want every shard reused from a part", left, joined)
	}
	got := indextest.Beside(store)
	for key := range got {
		if err := store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	run(build.Share{})
	if want := indextest.Beside(store); !maps.Equal(got, want) {
		t.Errorf("got %q next to the shards, want %q with the same bytes", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
