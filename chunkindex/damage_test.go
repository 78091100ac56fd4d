package chunkindex

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// smallIndex returns the bytes of an index of two shards, three samples and two chunks.
func smallIndex(t testing.TB) []byte {
	t.Helper()
	store, rep := smallStore(t)
	b, ok := store.Bytes(indexObject("", rep.Generation))
	if !ok {
		t.Fatal("no index object")
	}
	return bytes.Clone(b)
}

// smallStore returns a store that holds the shards and the index of smallIndex.
func smallStore(t testing.TB) (*memstore.Store, BuildReport) {
	t.Helper()
	store := memstore.New()
	for i, names := range [][]string{{"x.jpg", "x.cls", "y.jpg"}, {"dir/z"}} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, n := range names {
			if err := w.WriteHeader(&tar.Header{Name: n, Size: int64(len(n)), Mode: 0o644}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		store.Set([]string{"a.tar", "b.tar"}[i], b.Bytes())
	}
	rep, err := Build(t.Context(), store, "", BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// parseAny opens an index file whatever its generation.
func parseAny(f *os.File, size int64) (*Index, error) {
	head := make([]byte, headerSize)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	sum := sha256.Sum256(head)
	return parseIndex(f, size, hex.EncodeToString(sum[:]), nil, true)
}

// useAll opens an index file and reads everything in it. What it returns says whether all of it was accepted.
func useAll(f *os.File, size int64) error {
	return use(parseAny(f, size))
}

// use reads everything in an index that was opened, if it was.
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
		if _, err := x.block(ctx, secDecoding, c); err != nil {
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
	_, err = x.repeats(ctx)
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

// allocated returns the bytes that do allocates.
func allocated(do func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	do()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func TestEveryPrefixIsRefused(t *testing.T) {
	b := smallIndex(t)
	f := fileOf(t, b)
	if err := useAll(f, int64(len(b))); err != nil {
		t.Fatal(err)
	}
	got := allocated(func() {
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
			remend(p)
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
			remend(b)
		}
		file := fileOf(t, b)
		defer file.Close()
		if got := allocated(func() { _ = useAll(file, int64(len(b))) }); got > 64<<20 {
			t.Fatalf("got %d bytes allocated for an index of %d", got, len(b))
		}
	})
}

// remend makes all digests right of an index that was changed, as far as its list of sections is there, so that what lies behind them is reached.
func remend(b []byte) {
	if len(b) < headerSize {
		return
	}
	entry := func(sec int) []byte { return b[countsSize+entrySize*sec:] }
	if off, length := le64(entry(secHash)[8:]), le64(entry(secHash)[16:]); off <= uint64(len(b)) && length <= uint64(len(b))-off {
		for sec := b[off : off+length]; len(sec) >= pageSize; sec = sec[pageSize:] {
			putCRC(sec[pageCRC:pageSize], sec[:pageCRC])
		}
	}
	off, length := le64(entry(secDigests)[8:]), le64(entry(secDigests)[16:])
	if off != headerSize || length > uint64(len(b))-headerSize {
		return
	}
	begin := int64(off + length)
	digests, err := sumPages(bytes.NewReader(b), begin, int64(len(b)))
	if err != nil {
		return
	}
	copy(b[headerSize:begin], digests)
	sum := sha256.Sum256(b[headerSize:begin])
	copy(b[headerSize-sha256.Size:], sum[:])
}
