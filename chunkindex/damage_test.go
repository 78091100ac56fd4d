package chunkindex

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/testing/memory"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shards"
)

// smallIndex returns the bytes of an index with two shards, three samples and two chunks. They are
// the root and a segment, as in a local copy.
func smallIndex(t testing.TB) []byte {
	t.Helper()
	store, rep := smallStore(t)
	return indexBytes(t, store, rep.Generation)
}

// indexBytes returns a stored index as in a local copy: the root, then the segments.
func indexBytes(t testing.TB, store *memstore.Store, generation string) []byte {
	t.Helper()
	text, _ := store.Bytes(layout.IndexObject("", generation))
	root, err := layout.DecodeRoot(text, generation)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Clone(text)
	for _, ref := range root.Segments {
		s, _ := store.Bytes(layout.SegmentObject("", ref.Name()))
		b = append(b, s...)
	}
	return b
}

// segmentBytes returns the bytes of the first segment of an index with a valid root.
func segmentBytes(b []byte) []byte { return b[rootSize(b):] }

// section returns the bytes from the beginning of a section of the first segment.
func section(b []byte, sec int) []byte {
	s := segmentBytes(b)
	return s[le64(s[layout.CountsSize+layout.EntrySize*sec+8:]):]
}

// rootSize returns the length of the root of an index, or -1.
func rootSize(b []byte) int64 {
	if len(b) < layout.RootHeader {
		return -1
	}
	n, err := layout.RootSize(b)
	if err != nil || n > int64(len(b)) {
		return -1
	}
	return n
}

// generationOf returns the generation that the root of an index has.
func generationOf(b []byte) string {
	sum := sha256.Sum256(b[:max(0, rootSize(b))])
	return hex.EncodeToString(sum[:])
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
func parseAny(t testing.TB, f *os.File) (*Index, error) {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return parseFile(f, generationOf(b))
}

// parseFile opens an index file, as Open opens a local copy.
func parseFile(f *os.File, generation string) (*Index, error) {
	s := &indexSource{store: memstore.New(), generation: generation, whole: WholeIndex}
	return s.parseLocal(f)
}

// useAll opens an index file and reads all of its data. It returns nil if all data is valid.
func useAll(t testing.TB, f *os.File) error {
	return use(parseAny(t, f))
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
		for i := range t.Len() {
			off := t.Offset(i)
			if int64(off)+int64(t.Length(i)) > x.Chunk(c).Length {
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
	if err := useAll(t, f); err != nil {
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
			if _, err := parseAny(t, f); err == nil {
				t.Fatalf("prefix of %d bytes: got an index", n)
			}
			p := bytes.Clone(b[:n])
			fixDigests(p)
			if _, err := f.WriteAt(p, 0); err != nil {
				t.Fatal(err)
			}
			if err := useAll(t, f); err == nil {
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
		if got := memory.Allocated(func() { _ = useAll(t, file) }); got > 64<<20 {
			t.Fatalf("got %d bytes allocated for an index of %d", got, len(b))
		}
	})
}

// fixDigests recomputes all digests of a modified index, so that tests reach the checks after the
// digests. It requires an intact list of segments and lists of sections.
func fixDigests(b []byte) {
	size := rootSize(b)
	if size < 0 {
		return
	}
	row, rest := b[layout.RootHeader:size], b[size:]
	for range le64(b[16:]) {
		length := le64(row[sha256.Size:])
		if length > uint64(len(rest)) {
			return
		}
		fixSegment(rest[:length])
		sum := sha256.Sum256(rest[:min(length, layout.HeaderSize)])
		copy(row, sum[:])
		row, rest = row[sha256.Size+16:], rest[length:]
	}
}

func fixSegment(b []byte) {
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
