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
	b.whole = 0
	err = b.run(t.Context())
	return b.report, err
}

// TestRun_ReusesALargeIndexInPart checks that a run reuses the blocks of a large index and fetches
// each of them once, concurrently. The new index must equal the index of a run from scratch.
func TestRun_ReusesALargeIndexInPart(t *testing.T) {
	store, old := indexedLines(t, 30000)
	lines, _ := store.Bytes("c-1.jsonl")
	store.Set("c-2.jsonl", lines[:len(lines)/2+bytes.IndexByte(lines[len(lines)/2:], '\n')+1])
	key := layout.IndexObject("", old.Generation)
	size, _ := store.Stat(t.Context(), key)
	var fetched atomic.Int64
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read && c.Key == key {
			fetched.Add(c.Length)
		}
		return memstore.Fault{}
	})
	rep, err := buildInPart(t, store)
	if err != nil || rep.ReusedShards != 2 || rep.Generation == old.Generation {
		t.Fatalf("got %+v, %v, want two shards that are taken over", rep, err)
	}
	if n := fetched.Load(); n > size.Size*13/10 { // the block offsets are in the same piece as some blocks
		t.Errorf("got %d bytes fetched of an index of %d", n, size.Size)
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

// TestRun_ReplacesADamagedLargeIndex checks that a stored index with damage anywhere is replaced,
// even if only a part of it is local and the generation is the same.
func TestRun_ReplacesADamagedLargeIndex(t *testing.T) {
	for name, where := range map[string]func(h *layout.Header) int64{
		"tables": func(h *layout.Header) int64 { return h.Sections[layout.SecTables].End() - 5 },
		"names":  func(h *layout.Header) int64 { return h.Sections[layout.SecNames].End() - 1 },
		"hashes": func(h *layout.Header) int64 { return h.Sections[layout.SecHash].End() - layout.PageSize },
	} {
		store, old := namedStore(t)
		key := layout.IndexObject("", old.Generation)
		stored, _ := store.Bytes(key)
		h, err := layout.DecodeHeader(stored[:layout.HeaderSize], int64(len(stored)))
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(stored)
		bad[where(h)] ^= 1
		store.Set(key, bad)
		rep, err := buildInPart(t, store)
		if now, _ := store.Bytes(key); err != nil || rep.Unchanged || !bytes.Equal(now, stored) {
			t.Errorf("%s: got %+v, %v, want the index as it was", name, rep, err)
		}
		if read := rep.ReadBytes > 0; read == (name == "hashes") {
			t.Errorf("%s: got %d bytes read", name, rep.ReadBytes)
		}
	}
}

// TestRun_StoreErrorInAnEarlierIndex checks that a store error during a read of an index's blocks
// ends the run, and does not make the run read shards again.
func TestRun_StoreErrorInAnEarlierIndex(t *testing.T) {
	store, old := indexedLines(t, 30000)
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read && c.Key == layout.IndexObject("", old.Generation) && c.Offset > 0 || c.Op == memstore.Open && c.Key == "c-0.jsonl" {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	var fetching *chunkindex.FetchError
	if rep, err := buildInPart(t, store); !errors.As(err, &fetching) || rep.ReadBytes > 0 {
		t.Errorf("got %+v, %v, want %v", rep, err, objstore.ErrUnavailable)
	}
}
