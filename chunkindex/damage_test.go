package chunkindex

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore/memstore"
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
	for shard, names := range map[string][]string{"a.tar": {"x.jpg", "x.cls", "y.jpg"}, "b.tar": {"dir/z"}} {
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
		store.Set(shard, b.Bytes())
	}
	rep, err := Build(t.Context(), store, "", BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return store, rep
}

// parseAny opens an index file whatever its generation.
func parseAny(f *os.File, size int64) (*Index, error) {
	foot := make([]byte, 32)
	if _, err := f.ReadAt(foot, max(0, size-footerSize)); err != nil {
		return nil, err
	}
	return parseIndex(f, size, hex.EncodeToString(foot))
}

// useAll opens an index file and reads everything in it. What it returns says whether all of it was accepted.
func useAll(f *os.File, size int64) error {
	x, err := parseAny(f, size)
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
		if _, err := x.blobs(secDecoding, c); err != nil {
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

// refoot makes length and digest right again, so that what lies behind them is reached.
func refoot(b []byte) {
	sum := sha256.Sum256(b[:len(b)-footerSize])
	copy(b[len(b)-footerSize:], encodeFooter(sum[:], int64(len(b))))
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
			if n < minHeader+24+footerSize {
				continue
			}
			p := bytes.Clone(b[:n])
			refoot(p)
			if _, err := f.WriteAt(p, 0); err != nil {
				t.Fatal(err)
			}
			if err := useAll(f, int64(n)); err == nil {
				t.Fatalf("prefix of %d bytes with a new footer: got an index", n)
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
		if mend && len(b) >= minHeader+24+footerSize {
			remend(b)
		}
		file := fileOf(t, b)
		defer file.Close()
		if got := allocated(func() { _ = useAll(file, int64(len(b))) }); got > 64<<20 {
			t.Fatalf("got %d bytes allocated for an index of %d", got, len(b))
		}
	})
}

// remend makes all checksums right that the header's own directory lets one find, then the footer.
func remend(b []byte) {
	for i := range numSections {
		e := b[64+24*i:]
		off, length := le64(e[8:]), le64(e[16:])
		if off > uint64(len(b)) || length > uint64(len(b))-off {
			continue
		}
		sec := b[off : off+length]
		switch i {
		case secMeta, secShards, secChunks, secExtents:
			putCRC(e[4:8], sec)
		case secHash:
			for ; len(sec) >= pageSize; sec = sec[pageSize:] {
				putCRC(sec[pageCRC:pageSize], sec[:pageCRC])
			}
		case secTables:
			if le64(b[24:]) == 1 && len(sec) >= 4 {
				putCRC(sec[len(sec)-4:], sec[:len(sec)-4])
			}
		}
	}
	end := (&header{version: indexVersion}).length()
	putCRC(b[end-8:end-4], b[:end-8])
	refoot(b)
}
