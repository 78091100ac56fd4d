package build

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// buildInPart indexes a dataset. It reads the previous index partially, as Run does for a large
// index.
func buildInPart(t *testing.T, store *memstore.Store) (Report, error) {
	t.Helper()
	leaks.Check(t)
	b, err := newBuilder(store, "", Options{ChunkSize: 8 << 10, TempDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	b.download = 0
	err = b.run(t.Context())
	return b.report, err
}

// TestRun_ReusesALargeIndexInPart checks that a run reuses the blocks of a large index and fetches
// each of them once, concurrently. The new index must equal the index of a run from scratch.
func TestRun_ReusesALargeIndexInPart(t *testing.T) {
	store, old := indexedLines(t, 30000)
	lines, _ := store.Bytes("c-1.jsonl")
	store.Set("c-2.jsonl", lines[:len(lines)/2+bytes.IndexByte(lines[len(lines)/2:], '\n')+1])
	size := int64(0)
	for _, key := range store.Keys() {
		if strings.HasPrefix(key, layout.SegmentDir) {
			size += int64(len(shards.Bytes(t, store, key)))
		}
	}
	var fetched atomic.Int64
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read && strings.HasPrefix(c.Key, layout.SegmentDir) {
			fetched.Add(c.Length)
		}
		return memstore.Fault{}
	})
	rep, err := buildInPart(t, store)
	if err != nil || rep.ReusedShards != 2 || rep.Generation == old.Generation {
		t.Fatalf("got %+v, %v, want two shards that are taken over", rep, err)
	}
	if n := fetched.Load(); n > size*13/10 { // the block offsets are in the same piece as some blocks
		t.Errorf("got %d bytes fetched of an index of %d", n, size)
	}
	store.SetFault(nil)
	fresh := memstore.New()
	for _, k := range []string{"c-0.jsonl", "c-1.jsonl", "c-2.jsonl"} {
		b, _ := store.Bytes(k)
		fresh.Set(k, b)
	}
	want, err := Run(t.Context(), fresh, "", Options{ChunkSize: 8 << 10})
	if err != nil || want.Generation != rep.Generation {
		t.Errorf("got generation %.12s, want %.12s, %v", rep.Generation, want.Generation, err)
	}
	if rep, err := buildInPart(t, store); err != nil || !rep.Unchanged || rep.ReusedShards != 3 {
		t.Errorf("once more: got %+v, %v, want nothing to publish", rep, err)
	}
}

// namedStore returns a store with a shard whose sample names are stored, and an index of several
// pages.
func namedStore(t *testing.T) (*memstore.Store, Report) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 6000 {
		text := strings.Repeat("x", 1+i%50)
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%x.txt", i*i), Size: int64(len(text)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	store := memstore.New()
	store.Set("a.tar", b.Bytes())
	rep, err := Run(t.Context(), store, "", Options{ChunkSize: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// TestRun_ReplacesDamagedObjects checks that a run replaces an index of which the root, or the
// resident part of a segment, is damaged or missing. Damage in a block is found by Prove; the removal
// of the segment that Prove names lets the next run replace it.
func TestRun_ReplacesDamagedObjects(t *testing.T) {
	type change func(root, segment string, h *layout.Header, store *memstore.Store)
	flip := func(store *memstore.Store, key string, at int64) {
		b := bytes.Clone(shards.Bytes(t, store, key))
		b[at] ^= 1
		store.Set(key, b)
	}
	for name, c := range map[string]struct {
		change change
		hidden bool // the run does not read the damaged bytes
	}{
		"root":       {func(root, _ string, _ *layout.Header, store *memstore.Store) { flip(store, root, 30) }, false},
		"no root":    {func(root, _ string, _ *layout.Header, store *memstore.Store) { store.Delete(t.Context(), root) }, false},
		"header":     {func(_, segment string, _ *layout.Header, store *memstore.Store) { flip(store, segment, 20) }, false},
		"no segment": {func(_, segment string, _ *layout.Header, store *memstore.Store) { store.Delete(t.Context(), segment) }, false},
		"a byte too few": {func(_, segment string, h *layout.Header, store *memstore.Store) {
			store.Set(segment, shards.Bytes(t, store, segment)[:h.Size()-1])
		}, false},
		"tables": {func(_, segment string, h *layout.Header, store *memstore.Store) {
			flip(store, segment, h.Sections[layout.SecTables].End()-5)
		}, true},
		"hashes": {func(_, segment string, h *layout.Header, store *memstore.Store) {
			flip(store, segment, h.Sections[layout.SecHash].End()-layout.PageSize)
		}, true},
	} {
		store, old := namedStore(t)
		before := shards.Copy(store)
		root, segment := layout.IndexObject("", old.Generation), ""
		for _, key := range store.Keys() {
			if strings.HasPrefix(key, layout.SegmentDir) {
				segment = key
			}
		}
		b := shards.Bytes(t, store, segment)
		h, err := layout.DecodeHeader(b[:layout.HeaderSize], int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		c.change(root, segment, h, store)
		rep, err := buildInPart(t, store)
		if err != nil || rep.Unchanged != c.hidden || c.hidden != (rep.ReadBytes == 0) {
			t.Errorf("%s: got %+v, %v", name, rep, err)
		}
		if c.hidden {
			x, err := chunkindex.Open(t.Context(), store, "", chunkindex.OpenOptions{})
			if !errors.Is(err, chunkindex.ErrCorrupt) || !strings.Contains(err.Error(), strings.TrimPrefix(segment, layout.SegmentDir)) {
				t.Errorf("%s: got %v, %v, want an error with the name of the segment", name, x, err)
			}
			store.Delete(t.Context(), segment)
			if rep, err := buildInPart(t, store); err != nil || rep.Unchanged {
				t.Errorf("%s, removed: got %+v, %v", name, rep, err)
			}
		}
		for _, key := range []string{root, segment} {
			if now, _ := store.Bytes(key); !bytes.Equal(now, shards.Bytes(t, before, key)) {
				t.Errorf("%s: %s is not as it was", name, key)
			}
		}
	}
}

// TestRun_StoreErrorInAnEarlierIndex checks that a store error during a read of an index's blocks
// ends the run, and does not make the run read shards again.
func TestRun_StoreErrorInAnEarlierIndex(t *testing.T) {
	store, _ := indexedLines(t, 30000)
	store.Set("c-2.jsonl", shards.Bytes(t, store, "c-1.jsonl")) // so that the blocks are needed
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read && strings.HasPrefix(c.Key, layout.SegmentDir) && c.Offset > 0 || c.Op == memstore.Open && c.Key == "c-0.jsonl" {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	var fetching *chunkindex.FetchError
	if rep, err := buildInPart(t, store); !errors.As(err, &fetching) || rep.ReadBytes > 0 {
		t.Errorf("got %+v, %v, want %v", rep, err, objstore.ErrUnavailable)
	}
}
