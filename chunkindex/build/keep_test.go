package build_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/testing/indextest"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

const kept = prefix + ".millrace/scan/"

// requests counts the requests to a store. kept counts only those for stored scans.
type requests struct{ all, kept map[memstore.Op]int }

// count counts all further requests to a store. All requests fail from the first one for which end
// returns true.
func count(store *memstore.Store, end func(memstore.Call) bool) *requests {
	r, ended := &requests{map[memstore.Op]int{}, map[memstore.Op]int{}}, false
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if ended = ended || end != nil && end(c); ended {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		r.all[c.Op]++
		if strings.HasPrefix(c.Key, kept) {
			r.kept[c.Op]++
		}
		return memstore.Fault{}
	})
	return r
}

// TestKeep_StoresTinyShardsTogether checks that stored scans cost one write and one removal for
// hundreds of tiny shards, instead of one for each shard.
func TestKeep_StoresTinyShardsTogether(t *testing.T) {
	const shards = 2500
	store := memstore.New()
	indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(shards, 1), Shards: shards})
	r := count(store, nil)
	rep := indexed(t, store, build.Options{})
	if rep.Shards != shards || rep.Samples != shards || r.all[memstore.Open] != shards {
		t.Errorf("got %+v and %d shards read, want each of %d once", rep, r.all[memstore.Open], shards)
	}
	if r.kept[memstore.Put] != shards/512 || r.kept[memstore.Delete] != shards/512 {
		t.Errorf("got %v for what was kept, want %d writes and as many removals", r.kept, shards/512)
	}
	segments := 0
	for _, key := range store.Keys() {
		if strings.HasPrefix(key, prefix+".millrace/segment/") {
			segments++
		}
	}
	if r.all[memstore.Put] > 10+segments || segments > shards/40 || r.all[memstore.Delete] > 5 { // includes the probe of the store and the published objects
		t.Errorf("got requests %v and %d segments, want ten writes and the segments", r.all, segments)
	}
}

// TestRun_TinyShardsTakeLittleMemory checks that the memory for indexing depends on the contents of
// the shards, not on the limits.
func TestRun_TinyShardsTakeLittleMemory(t *testing.T) {
	const shards = 500
	store := memstore.New()
	indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(shards, 1), Shards: shards})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	indexed(t, store, build.Options{})
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / shards; got > 32<<10 {
		t.Errorf("got %d bytes allocated for each shard of 2 KiB, want 32 KiB at most", got)
	}
}

// TestKeep_LimitsRepeatedWork ends a run at any point. The next run may read again at most twice
// the number of shards between two writes, plus the shards that were being read.
func TestKeep_LimitsRepeatedWork(t *testing.T) {
	const shards, parallel = 40, 3
	for _, c := range []struct {
		name   string
		bytes  int64
		shards int
		most   int // number of shards between two writes
	}{
		{"by shards", 1 << 40, 7, 7},
		{"by bytes", 10 << 10, 1 << 20, 5}, // each shard has 2 KiB plus headers
	} {
		for at := range shards {
			store := memstore.New()
			d := indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(shards, 9), Shards: shards})
			opt := build.Options{Parallel: parallel}
			opened := 0
			r := count(store, func(c memstore.Call) bool {
				if c.Op == memstore.Open {
					opened++
				}
				return opened > at
			})
			_, err := build.RunKeeping(t.Context(), store, prefix, opt, c.bytes, c.shards)
			if !errors.Is(err, objstore.ErrUnavailable) {
				t.Fatalf("%s, ended at %d: got %v, want %v", c.name, at, err, objstore.ErrUnavailable)
			}
			read := r.all[memstore.Open]
			r = count(store, nil)
			rep := indexed(t, store, opt)
			if again := rep.Shards - rep.ReusedShards - (shards - read); again < 0 || again > 2*(c.most+parallel) {
				t.Fatalf("%s, ended at %d: got %d shards read again, want at most twice %d, and %d that were being read", c.name, at, again, c.most, parallel)
			}
			if got := r.all[memstore.Open] - r.kept[memstore.Open]; got != rep.Shards-rep.ReusedShards {
				t.Fatalf("%s, ended at %d: got %d shards read, %+v", c.name, at, got, rep)
			}
			x, err := chunkindex.Open(t.Context(), store, prefix, chunkindex.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			checkAgainst(t, store, prefix, x, d.Keys, d.Samples)
			x.Close()
		}
	}
}

// TestTakeKept_AfterTwoInterruptions checks that the scans in all objects that two interrupted runs
// left are reused.
func TestTakeKept_AfterTwoInterruptions(t *testing.T) {
	const shards = 30
	store := memstore.New()
	indextest.Write(t, store, indextest.Spec{Prefix: prefix, Sizes: indextest.Sizes(shards, 9), Shards: shards})
	opt := build.Options{Parallel: 1}
	for i, last := range []string{"shard-00010.tar", "shard-00020.tar"} {
		r := count(store, func(c memstore.Call) bool { return c.Op == memstore.Open && c.Key == prefix+last })
		rep, err := build.RunKeeping(t.Context(), store, prefix, opt, 1<<40, 5)
		if err == nil || rep.ReusedShards != 10*i || r.kept[memstore.Put] != 2 {
			t.Fatalf("got %+v, %v, %v kept, want it ended at %s", rep, err, r.kept, last)
		}
	}
	r := count(store, nil)
	if rep := indexed(t, store, opt); rep.ReusedShards != 20 || r.kept[memstore.Open] != 4 || r.kept[memstore.Delete] != 4 {
		t.Errorf("got %+v and %v for what was kept, want 20 shards taken over from 4 objects", rep, r.kept)
	}
}
