//go:build !race

package build

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/testing/memory"
)

// TestIndex_ResidentBytesPerChunk checks that an open index uses at most 100 bytes per chunk, for
// any number of samples.
func TestIndex_ResidentBytesPerChunk(t *testing.T) {
	n := 120_000
	if os.Getenv("MILLRACE_LONG") != "" {
		n = 2_000_000
	}
	f, ref := written(t, shardScan{key: "a.tar", size: int64(n) * 2048, scan: manyChunks(n)})
	before := heap()
	x := assembled(t, f, ref)
	got := float64(heap()-before) / float64(n)
	said := float64(x.Resident()) / float64(n)
	t.Logf("%d chunks: %.1f bytes each in memory, %.1f by its own account; index of %d bytes", n, got, said, x.Size())
	if got > 100 || said > 100 || got > said*1.1+1 {
		t.Errorf("got %.1f bytes a chunk, %.1f by its own account, want at most 100", got, said)
	}
	for i := 0; i < 2*n; i += 997 {
		key := fmt.Sprintf("sample/%d/%d", i/2, i%2)
		if at, ok, err := x.Lookup(t.Context(), key, ""); err != nil || !ok || at != uint64(i) {
			t.Fatalf("lookup of %s: got %d, %v, %v", key, at, ok, err)
		}
	}
	runtime.KeepAlive(x)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestHashSorter checks that sorting on disk produces the same pages as sorting in memory, even for
// crafted names with equal hashes.
func TestHashSorter(t *testing.T) {
	for name, hash := range map[string]func(i uint64) uint64{
		"names": func(i uint64) uint64 {
			if i%1000 == 0 {
				return 42 // hashes that collide
			}
			return layout.HashKey([]byte{byte(i), byte(i >> 8)})
		},
		"one name":          func(uint64) uint64 { return 1 << 40 },
		"two names":         func(i uint64) uint64 { return 1<<40 + i%2 },
		"chosen names":      func(i uint64) uint64 { return 7<<60 | layout.HashKey([]byte{byte(i), byte(i >> 8)})>>24 },
		"names all but one": func(i uint64) uint64 { return 1 << 63 >> (i / 4999 * 63) },
	} {
		sorted := func(limit int) string {
			s, err := newHashSorter(t.TempDir(), 5000, limit, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			for i := range uint64(5000) {
				if err := s.add(hash(i), i); err != nil {
					t.Fatal(err)
				}
			}
			var out []byte
			if err := s.write((*appender)(&out)); err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		memory := sorted(5000)
		if got, want := len(memory), layout.PageSize*int(layout.HashPages(5000)); got != want {
			t.Fatalf("%s: got %d bytes, want %d", name, got, want)
		}
		for _, limit := range []int{10, 100, 4999} {
			if sorted(limit) != memory {
				t.Errorf("%s, limit %d: other pages than in memory", name, limit)
			}
		}
	}
}

// TestHashSorter_CraftedNames checks that, for any names, memory holds no more records than the
// limit.
func TestHashSorter_CraftedNames(t *testing.T) {
	const n, limit = 1 << 20, 1 << 14
	got := memory.Allocated(func() {
		s, err := newHashSorter(t.TempDir(), n, limit, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		for i := range uint64(n) {
			if err := s.add(i*0x9e3779b97f4a7c15>>7, i); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.write(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if got > 12<<20 {
		t.Errorf("got %d bytes allocated for %d records, want far less than the %d they take", got, n, 16*n)
	}
}

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// sameKey is a scan whose chunks have one sample each, all with the same key.
type sameKey int

func (n sameKey) take(visit func(*layout.ChunkRecord) error) error { return n.each(visit) }

func (n sameKey) totals() (t layout.Totals) {
	_ = n.each(func(r *layout.ChunkRecord) error { t.Add(r); return nil })
	return t
}

func (n sameKey) each(visit func(*layout.ChunkRecord) error) error {
	return manyChunks(n).each(func(r *layout.ChunkRecord) error {
		r.Samples = 1
		one := layout.PlainBlocks{
			Table: []byte{0, 0, 0, 0, 0, 4, 0, 0, 7, 0, 0, 0}, Names: []byte("\x03key"),
			Parts: layout.AppendPart([]byte{1}, layout.Part{Ext: "bin", Offset: 512, Length: 512}),
		}
		if err := r.Encode(&one, 0, "a.tar", 0); err != nil {
			return err
		}
		return visit(r)
	})
}

// TestRepeatedKeys_MillionSamplesOfOneKey checks that RepeatedKeys counts, in a single pass, a
// million shards whose samples have the same key.
func TestRepeatedKeys_MillionSamplesOfOneKey(t *testing.T) {
	n := 100_000
	if os.Getenv("MILLRACE_LONG") != "" {
		n = 1_000_000
	}
	shards := make([]shardScan, n)
	for i := range shards {
		shards[i] = shardScan{key: fmt.Sprintf("%07d.tar", i), size: 2048, scan: sameKey(1)}
	}
	f, ref := written(t, shards...)
	x := assembled(t, f, ref)
	repeated, example, err := x.RepeatedKeys(t.Context())
	if err != nil || repeated != 1 || example != "key" {
		t.Errorf("got %d keys, such as %q, %v, want one key", repeated, example, err)
	}
	for i := 0; i < n; i += 997 {
		if at, ok, err := x.Lookup(t.Context(), "key", shards[i].key); err != nil || !ok || at != uint64(i) {
			t.Fatalf("shard %d: got %d, %v, %v", i, at, ok, err)
		}
	}
}
