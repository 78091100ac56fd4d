package build

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// segmentKeys returns the keys of the stored segments.
func segmentKeys(store *memstore.Store) []string {
	return slices.DeleteFunc(store.Keys(), func(key string) bool { return !strings.HasPrefix(key, layout.SegmentDir) })
}

// fresh returns the index of a store with only these shards, which no earlier run has indexed.
func fresh(t *rapid.T, store *memstore.Store, keys []string) (*chunkindex.Index, Report) {
	other := memstore.New()
	for _, key := range keys {
		b, _ := store.Bytes(key)
		other.Set(key, b)
	}
	rep, err := Run(t.Context(), other, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.Open(t.Context(), other, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return x, rep
}

// TestSegments_FollowFromTheData checks that an index has the same segments, whatever runs made it:
// after each of some random changes of the shards, a run publishes the same generation as a run from
// scratch. It writes no segment that the current generation has, and reads only the new shards.
func TestSegments_FollowFromTheData(t *testing.T) {
	kept, outer := 0, t
	rapid.Check(t, func(t *rapid.T) {
		store := memstore.New()
		suffix := rapid.SampledFrom([]string{".tar", ".jsonl"}).Draw(t, "format")
		body := func(n int) []byte {
			if suffix == ".tar" {
				return shards.TarOf(outer, fmt.Sprintf("%d.txt", n), fmt.Sprintf("%d-b.txt", n%7))
			}
			return bytes.Repeat([]byte("{}\n"), 1+n%5)
		}
		var keys []string
		for range rapid.IntRange(1, 4).Draw(t, "runs") {
			least := rapid.IntRange(0, 300).Draw(t, "least")
			for range rapid.IntRange(0, 150).Draw(t, "added") {
				n := rapid.IntRange(least, least+100).Draw(t, "shard")
				key := fmt.Sprintf("%03d%s", n, suffix)
				if i, found := slices.BinarySearch(keys, key); !found {
					keys = slices.Insert(keys, i, key)
				}
				store.Set(key, body(n+rapid.IntRange(0, 1).Draw(t, "changed")*400))
			}
			for range min(len(keys)-1, rapid.IntRange(0, 3).Draw(t, "removed")) {
				i := rapid.IntRange(0, len(keys)-1).Draw(t, "at")
				_ = store.Delete(t.Context(), keys[i])
				keys = slices.Delete(keys, i, i+1)
			}
			if len(keys) == 0 {
				continue
			}
			kept += checkRun(t, store, keys)
		}
	})
	if kept == 0 {
		t.Error("no run kept a segment")
	}
}

// checkRun indexes the store and compares with a run from scratch. It returns the number of segments
// that the run did not write.
func checkRun(t *rapid.T, store *memstore.Store, keys []string) (kept int) {
	var before []string
	if x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{}); err == nil {
		for _, s := range x.Segments() {
			before = append(before, layout.SegmentObject("", s.Ref.Name()))
		}
		x.Close()
	}
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Put && slices.Contains(before, c.Key) {
			t.Errorf("wrote %s, which the current generation has", c.Key)
		}
		return memstore.Fault{}
	})
	rep, err := Run(t.Context(), store, "", Options{})
	store.SetFault(nil)
	if err != nil {
		t.Fatal(err)
	}
	x, want := fresh(t, store, keys)
	defer x.Close()
	if rep.Generation != want.Generation || rep.RepeatedKeys != want.RepeatedKeys || rep.Samples != want.Samples {
		t.Fatalf("got %+v, want %+v", rep, want)
	}
	for _, s := range x.Segments() {
		key := layout.SegmentObject("", s.Ref.Name())
		if slices.Contains(before, key) {
			kept++
		}
		if !slices.Contains(segmentKeys(store), key) {
			t.Fatalf("%s is missing", key)
		}
	}
	return kept
}

// TestSegments_UnchangedSetCostsItsResidentPart checks that a run over unchanged shards reads only
// the root and the resident parts of a large index, and writes nothing.
func TestSegments_UnchangedSetCostsItsResidentPart(t *testing.T) {
	store, _ := indexedLines(t, 30000)
	resident, size := int64(0), int64(0)
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range x.Segments() {
		resident, size = resident+s.Ref.Resident, size+s.Ref.Size
	}
	x.Close()
	store.Reset()
	rep, err := buildInPart(t, store)
	if got := store.Stats().BytesRead; err != nil || !rep.Unchanged || got > resident+8<<10 || resident > size/3 {
		t.Errorf("got %+v, %v, %d bytes read, want at most %d of an index of %d", rep, err, got, resident, size)
	}
	if got := store.Stats().BytesWritten; got != 0 {
		t.Errorf("got %d bytes written", got)
	}
}

// TestSegments_EndAfterALargeShard checks that a shard with many samples ends a segment.
func TestSegments_EndAfterALargeShard(t *testing.T) {
	store := memstore.New()
	opt := Options{Format: "tokens"}
	opt.Hints.SequenceLength, opt.Hints.DType = 1, "<u2"
	for i := range 3 {
		store.Set(fmt.Sprintf("%d.bin", i), make([]byte, 8400000)) // 4.2 million windows
	}
	store.Set("3.bin", make([]byte, 40))
	if _, err := Run(t.Context(), store, "", opt); err != nil {
		t.Fatal(err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if n := len(x.Segments()); n != 4 {
		t.Errorf("got %d segments, want one for each shard", n)
	}
	for i, s := range x.Segments() {
		if s.First != i || s.Shards != 1 {
			t.Errorf("segment %d: got shards [%d, +%d)", i, s.First, s.Shards)
		}
	}
}

// TestLookup_SearchesEverySegment checks look-ups of keys in an index of several segments: the only
// sample, samples of several segments, and none.
func TestLookup_SearchesEverySegment(t *testing.T) {
	store := memstore.New()
	for i := range 400 {
		store.Set(fmt.Sprintf("%03d.tar", i), shards.TarOf(t, fmt.Sprintf("%d.txt", i), fmt.Sprintf("of-%d.txt", i%200)))
	}
	rep, err := Run(t.Context(), store, "", Options{})
	if err != nil || rep.RepeatedKeys != 200 {
		t.Fatalf("got %+v, %v, want 200 repeated keys", rep, err)
	}
	x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if n := len(x.Segments()); n < 3 {
		t.Fatalf("got %d segments", n)
	}
	for i := range 400 {
		shard := fmt.Sprintf("%03d.tar", i)
		at, ok, err := x.Lookup(t.Context(), fmt.Sprint(i), "")
		if err != nil || !ok || x.ShardKey(at) != shard {
			t.Fatalf("%d: got %d, %v, %v", i, at, ok, err)
		}
		twice := fmt.Sprintf("of-%d", i%200)
		if _, _, err := x.Lookup(t.Context(), twice, ""); err == nil || !strings.Contains(err.Error(), "2 shards") {
			t.Fatalf("%s: got %v, want an error with two shards", twice, err)
		}
		if at, ok, err := x.Lookup(t.Context(), twice, shard); err != nil || !ok || x.ShardKey(at) != shard {
			t.Fatalf("%s in %s: got %d, %v, %v", twice, shard, at, ok, err)
		}
	}
	if _, ok, err := x.Lookup(t.Context(), "none", ""); ok || err != nil {
		t.Errorf("got %v, %v for a key of no sample", ok, err)
	}
}
