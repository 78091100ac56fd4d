package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/testing/memory"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// smallIndex returns the bytes of an index with two shards, three samples and two chunks.
func smallIndex(t testing.TB) []byte {
	t.Helper()
	store, rep := smallStore(t)
	b, ok := store.Bytes(layout.IndexObject("", rep.Generation))
	if !ok {
		t.Fatal("no index object")
	}
	return bytes.Clone(b)
}

// smallStore returns a store with the shards and the index of smallIndex.
func smallStore(t testing.TB) (*memstore.Store, IndexReport) {
	t.Helper()
	store := memstore.New()
	shards.Tars(t, store)
	rep, err := IndexShards(t.Context(), store, "", IndexOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// parseAny opens an index file. It accepts any generation.
func parseAny(f *os.File, size int64) (*Index, error) {
	head := make([]byte, layout.HeaderSize)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.Sum256(head)
	return parseIndex(f, size, hex.EncodeToString(sum[:]), nil, true)
}

// useAll opens an index file and reads all of its data. It returns nil if all data is valid.
func useAll(f *os.File, size int64) error {
	return use(parseAny(f, size))
}

// use reads all data of an opened index. If opening failed, it returns that error.
func use(x *Index, err error) error {
	if err != nil {
		return err
	}
	ctx := context.Background()
	for c := range x.Chunks() {
		t, err := x.Table(ctx, c)
		if err != nil {
			return err
		}
		for i, off := range t.Offset {
			if int64(off)+int64(t.Length[i]) > x.Chunk(c).Length {
				panic("sample outside its chunk")
			}
		}
		for _, e := range x.Extents(c) {
			if e.Offset+e.Length > x.Shard(e.Shard).Size {
				panic("extent outside its shard")
			}
		}
		if _, err := x.Parts(ctx, c); err != nil {
			return err
		}
		if _, err := x.Block(ctx, layout.SecDecoding, c); err != nil {
			return err
		}
	}
	for s := range x.Samples() {
		key, err := x.Key(ctx, s)
		if err != nil {
			return err
		}
		if _, _, err := x.Lookup(ctx, key, x.Shard(x.ShardOf(s)).Key); err != nil {
			return err
		}
	}
	_, _, err = x.RepeatedKeys(ctx)
	return err
}

func fileOf(t testing.TB, b []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseIndex_RejectsEveryPrefix(t *testing.T) {
	b := smallIndex(t)
	f := fileOf(t, b)
	if err := useAll(f, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	got := memory.Allocated(func() {
		for n := len(b) - 1; n >= 0; n-- {
			if err := f.Truncate(int64(n)); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(b[:n], 0); err != nil {
				t.Fatal(err)
			}
			if _, err := parseAny(f, int64(n)); err == nil {
				t.Fatalf("prefix of %d bytes: got an index", n)
			}
			p := bytes.Clone(b[:n])
			fixDigests(p)
			if _, err := f.WriteAt(p, 0); err != nil {
				t.Fatal(err)
			}
			if err := useAll(f, int64(n)); err == nil {
				t.Fatalf("prefix of %d bytes with new digests: got an index", n)
			}
		}
	})
	if limit := uint64(len(b)) << 20; got > limit {
		t.Errorf("got %d bytes allocated, want at most %d", got, limit)
	}
}

func FuzzOpenIndex(f *testing.F) {
	f.Add(smallIndex(f), 0, uint32(0), false)
	f.Add(smallIndex(f), 24, uint32(1<<27), true)
	f.Add([]byte{}, 0, uint32(0), true)
	for _, b := range otherIndexes(f) {
		f.Add(b, 0, uint32(0), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, at int, value uint32, mend bool) {
		if len(b) > 1<<20 {
			return
		}
		b = bytes.Clone(b)
		if at >= 0 && at+4 <= len(b) {
			for i := range 4 {
				b[at+i] ^= byte(value >> (8 * i))
			}
		}
		if mend {
			fixDigests(b)
		}
		file := fileOf(t, b)
		defer file.Close()
		if got := memory.Allocated(func() { _ = useAll(file, int64(len(b))) }); got > 64<<20 {
			t.Fatalf("got %d bytes allocated for an index of %d", got, len(b))
		}
	})
}

// fixDigests recomputes all digests of a modified index, so that tests reach the checks after the
// digests. It requires an intact list of sections.
func fixDigests(b []byte) {
	if len(b) < layout.HeaderSize {
		return
	}
	entry := func(sec int) []byte { return b[layout.CountsSize+layout.EntrySize*sec:] }
	if off, length := le64(entry(layout.SecHash)[8:]), le64(entry(layout.SecHash)[16:]); off <= uint64(len(b)) && length <= uint64(len(b))-off {
		for sec := b[off : off+length]; len(sec) >= layout.PageSize; sec = sec[layout.PageSize:] {
			putCRC(sec[layout.PageCRC:layout.PageSize], sec[:layout.PageCRC])
		}
	}
	off, length := le64(entry(layout.SecDigests)[8:]), le64(entry(layout.SecDigests)[16:])
	if off != layout.HeaderSize || length > uint64(len(b))-layout.HeaderSize {
		return
	}
	begin := int64(off + length)
	digests, err := layout.SumPages(bytes.NewReader(b), begin, int64(len(b)))
	if err != nil {
		return
	}
	copy(b[layout.HeaderSize:begin], digests)
	sum := sha256.Sum256(b[layout.HeaderSize:begin])
	copy(b[layout.HeaderSize-sha256.Size:], sum[:])
}
