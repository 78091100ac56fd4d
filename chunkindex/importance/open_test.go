package importance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// frozenStore returns a store with a snapshot, and the snapshot's digest and bytes.
func frozenStore(t *testing.T) (store *memstore.Store, digest string, b []byte) {
	t.Helper()
	store = memstore.New()
	l := newLog(t, store)
	add(t, l, epochReports(epochLosses(43, 1))...)
	digest = freeze(t, l, request()).Digest
	b, ok := store.Bytes(l.snapshotKey(digest))
	if !ok {
		t.Fatal("no snapshot")
	}
	sum := sha256.Sum256(b)
	if got := hex.EncodeToString(sum[:]); got != digest {
		t.Fatalf("digest: got %s, want %s", digest, got)
	}
	return store, digest, b
}

func tryOpen(t *testing.T, l *Log, digest string) error {
	t.Helper()
	s, err := l.Open(t.Context(), digest, testGeneration(), testFirst())
	if err == nil {
		s.Close()
	}
	return err
}

func TestUnknownSnapshot(t *testing.T) {
	stores(t, func(t *testing.T, store objstore.Store) {
		l := newLog(t, store)
		for _, digest := range []string{strings.Repeat("ab", 32), strings.Repeat("AB", 32), "../current", ""} {
			if err := tryOpen(t, l, digest); !errors.Is(err, ErrNoSnapshot) {
				t.Errorf("%q: got %v, want %v", digest, err, ErrNoSnapshot)
			}
		}
	})
}

func TestSnapshotOfOtherData(t *testing.T) {
	store, digest, _ := frozenStore(t)
	l := newLog(t, store, func(c *Config) { c.CacheDir = t.TempDir() })
	for i := range 2 { // first from the store, then from the local copy
		if _, err := l.Open(t.Context(), digest, strings.Repeat("22", 32), testFirst()); !errors.Is(err, ErrGeneration) {
			t.Errorf("another generation, time %d: got %v, want %v", i, err, ErrGeneration)
		}
		for _, first := range [][]uint64{{0, 43}, {0, 5, 5, 12, 29, 31, 43}, {0, 5, 5, 12, 29, 30, 44}} {
			if _, err := l.Open(t.Context(), digest, testGeneration(), first); !errors.Is(err, ErrCorrupt) {
				t.Errorf("chunks %v, time %d: got %v, want %v", first, i, err, ErrCorrupt)
			}
		}
		if err := tryOpen(t, l, digest); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Open(t.Context(), digest, testGeneration(), nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no chunks: got %v, want %v", err, ErrInvalid)
	}
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	store, digest, b := frozenStore(t)
	l := newLog(t, store)
	key := l.snapshotKey(digest)
	for n := range b {
		store.Set(key, b[:n])
		if err := tryOpen(t, l, digest); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("first %d bytes: got %v, want %v", n, err, ErrCorrupt)
		}
	}
	store.Set(key, append(bytes.Clone(b), 0))
	if err := tryOpen(t, l, digest); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a byte too many: got %v, want %v", err, ErrCorrupt)
	}
	for i := range 8 * len(b) {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		store.Set(key, bad)
		if err := tryOpen(t, l, digest); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit %d flipped: got %v, want %v", i, err, ErrCorrupt)
		}
	}
}

// TestSnapshotUnderAnotherNameIsRefused checks that Open rejects a valid snapshot of the same
// dataset that is stored under another digest.
func TestSnapshotUnderAnotherNameIsRefused(t *testing.T) {
	store, digest, b := frozenStore(t)
	l := newLog(t, store)
	q := request()
	q.Repeat = 2
	other := freeze(t, l, q).Digest
	store.Set(l.snapshotKey(other), b)
	if err := tryOpen(t, l, other); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), l.snapshotKey(other)) {
		t.Errorf("got %v, want %v that names the object", err, ErrCorrupt)
	}
	if err := tryOpen(t, l, digest); err != nil {
		t.Errorf("under its own name: got %v, want no error", err)
	}
}

// resealSnapshot recomputes all checksums of a snapshot that its header locates.
func resealSnapshot(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < snapshotHeader {
		return b
	}
	put := func(at int, of []byte) { binary.LittleEndian.PutUint32(b[at:], crc32.Checksum(of, castagnoli())) }
	plan, chunks := uint64(binary.LittleEndian.Uint32(b[152:])), binary.LittleEndian.Uint64(b[104:])
	rest := b[snapshotHeader:]
	if plan <= uint64(len(rest)) && chunks <= (uint64(len(rest))-plan)/chunkRecord {
		table, blocks := rest[plan:plan+chunkRecord*chunks], rest[plan+chunkRecord*chunks:]
		for row := table; len(row) > 0; row = row[chunkRecord:] {
			n := blockSize(uint64(binary.LittleEndian.Uint32(row[8:])))
			if n > int64(len(blocks)) {
				break
			}
			binary.LittleEndian.PutUint32(row[12:], crc32.Checksum(blocks[:n], castagnoli()))
			blocks = blocks[n:]
		}
		put(156, rest[:plan])
		put(160, table)
	}
	put(snapshotHeader-4, b[:snapshotHeader-4])
	return b
}

// lie modifies a snapshot, recomputes all checksums and its digest, and opens it.
func lie(t *testing.T, b []byte, change func(b []byte)) error {
	t.Helper()
	b = bytes.Clone(b)
	change(b)
	b = resealSnapshot(b)
	sum := sha256.Sum256(b)
	store, digest := memstore.New(), hex.EncodeToString(sum[:])
	l := newLog(t, store)
	store.Set(l.snapshotKey(digest), b)
	return tryOpen(t, l, digest)
}

func TestOpen_RejectsInconsistentSnapshots(t *testing.T) {
	_, _, b := frozenStore(t)
	if err := lie(t, b, func([]byte) {}); err != nil {
		t.Fatal(err)
	}
	table := snapshotHeader + len(testPlan)
	blocks := table + chunkRecord*6
	word := func(at int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	half := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	for name, change := range map[string]func([]byte){
		"order version":            half(12, 0),
		"batch size":               word(88, MaxBatch+1),
		"samples":                  word(96, 1<<60),
		"chunks":                   word(104, 1<<60),
		"hot samples":              word(112, 9),
		"total":                    word(120, 1),
		"positions":                word(128, 0),
		"conflicts":                word(136, 99),
		"hot share":                half(144, 2_000_000),
		"repeat":                   half(148, 0),
		"large repeat":             half(148, 1001),
		"plan":                     half(152, 1<<31),
		"reserved":                 half(164, 1),
		"total of a chunk":         word(table, 1),
		"samples of a chunk":       half(table+8, 6),
		"weight":                   half(blocks, Weight(5)+1),
		"weight of no rank":        half(blocks, Weight(0)-1),
		"weight beyond ranks":      half(blocks, Weight(MaxBatch)+1),
		"a hot bit more":           func(b []byte) { b[blocks+20] ^= 1 },
		"hot bits beyond the last": func(b []byte) { b[blocks+20] |= 1 << 5 },
		"plan is no text":          func(b []byte) { b[snapshotHeader] = 0xff },
	} {
		if err := lie(t, b, change); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, ErrCorrupt)
		}
	}
	if err := lie(t, b, half(8, 2)); !errors.Is(err, ErrVersion) {
		t.Errorf("newer version: got %v, want %v", err, ErrVersion)
	}
	if err := lie(t, b, coldHot(blocks)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("hot samples that are not the hottest: got %v, want %v", err, ErrCorrupt)
	}
}

func TestHotBitsBeyondTheLastSampleAreRefused(t *testing.T) {
	h := &head{Repeat: 3}
	for bits, want := range map[byte]error{1 << 2: nil, 1 << 5: ErrCorrupt, 1 << 7: ErrCorrupt} {
		weights := slices.Repeat([]uint32{Weight(4)}, 5)
		b := appendBlock(nil, weights, Hot{bits})
		e := chunkEntry{Samples: 5, CRC: crc32.Checksum(b, castagnoli()), Total: 5 * uint64(Weight(4))}
		if bits < 1<<5 {
			e.Total += 2 * uint64(Weight(4))
		}
		if _, err := h.decodeBlock(b, e); !errors.Is(err, want) {
			t.Errorf("bits %08b: got %v, want %v", bits, err, want)
		}
	}
}

// coldHot returns a change that swaps a hot sample of the first chunk with a cold sample, in the
// hot bits and in the total.
func coldHot(blocks int) func(b []byte) {
	return func(b []byte) {
		weight := func(i int) uint64 { return uint64(binary.LittleEndian.Uint32(b[blocks+4*i:])) }
		bits := &b[blocks+20]
		for hot := range 5 {
			for cold := range 5 {
				if *bits>>hot&1 == 1 && *bits>>cold&1 == 0 && weight(hot) > weight(cold) {
					*bits ^= 1<<hot | 1<<cold
					table := snapshotHeader + len(testPlan)
					less := 2 * (weight(hot) - weight(cold)) // the repetition factor is 3
					for _, at := range []int{table, 120} {
						binary.LittleEndian.PutUint64(b[at:], binary.LittleEndian.Uint64(b[at:])-less)
					}
					return
				}
			}
		}
		panic("the first chunk has no hot sample, or nothing else")
	}
}

// TestHugeSnapshotIsNotFetched checks that a huge object under a snapshot's name is not downloaded.
func TestHugeSnapshotIsNotFetched(t *testing.T) {
	store, digest, b := frozenStore(t)
	l := newLog(t, store)
	store.Set(l.snapshotKey(digest), append(bytes.Clone(b), make([]byte, 8<<20)...))
	store.Reset()
	if err := tryOpen(t, l, digest); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), l.snapshotKey(digest)) {
		t.Errorf("got %v, want %v that names the object", err, ErrCorrupt)
	}
	if got, want := store.Stats().BytesRead, int64(snapshotHeader); got != want {
		t.Errorf("bytes read: got %d, want %d", got, want)
	}
}

func TestOpen_UsesAndReplacesItsCopy(t *testing.T) {
	store, digest, b := frozenStore(t)
	dir := filepath.Join(t.TempDir(), "snapshots")
	l := newLog(t, store, func(c *Config) { c.CacheDir = dir })
	if err := tryOpen(t, l, digest); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, digest+".weights")
	store.Reset()
	if err := tryOpen(t, l, digest); err != nil || store.Stats().Total != 0 {
		t.Errorf("again: got %v and %d requests, want none", err, store.Stats().Total)
	}
	for name, bad := range map[string][]byte{"flipped": append([]byte{b[0] ^ 1}, b[1:]...), "torn": b[:len(b)/2], "empty": nil} {
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := tryOpen(t, l, digest); err != nil {
			t.Errorf("%s: got %v, want it downloaded again", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: the copy was not replaced: %v", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files: got %v, %v, want the copy only", entries, err)
	}
}

// TestOpen_RemovesOldCopies opens more snapshots than the number of retained copies, while the
// first snapshot stays in use.
func TestOpen_RemovesOldCopies(t *testing.T) {
	store, _, _ := frozenStore(t)
	dir := t.TempDir()
	l := newLog(t, store, func(c *Config) { c.CacheDir = dir })
	var all []*Snapshot
	for i := range copies + 3 {
		q := request()
		q.Repeat = uint32(i + 2)
		s := open(t, l, freeze(t, l, q).Digest)
		when := time.Unix(1_000_000+int64(i), 0)
		if err := os.Chtimes(filepath.Join(dir, s.Digest()+copySuffix), when, when); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for i, s := range all {
		_, err := os.Stat(filepath.Join(dir, s.Digest()+copySuffix))
		if got, want := err == nil, i >= 3; got != want {
			t.Errorf("copy %d: got kept %v, want %v", i, got, want)
		}
		weightsOf(t, s)
	}
}

// TestOpen_RemovesAbandonedFiles checks that partial files of killed gateways are removed before
// the next download, because they may fill the disk.
func TestOpen_RemovesAbandonedFiles(t *testing.T) {
	store, digest, _ := frozenStore(t)
	dir := t.TempDir()
	l := newLog(t, store, func(c *Config) { c.CacheDir = dir })
	now := time.Now()
	for name, age := range map[string]time.Duration{"millrace-weights-1": 25 * time.Hour, "millrace-weights-2": time.Hour, "other": 99 * time.Hour} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	store.SetFault(func(c memstore.Call) memstore.Fault {
		if c.Op == memstore.Read && c.Offset == 0 && c.Length > snapshotHeader {
			return memstore.Fault{Err: objstore.ErrUnavailable}
		}
		return memstore.Fault{}
	})
	if err := tryOpen(t, l, digest); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, objstore.ErrUnavailable)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if want := []string{"millrace-weights-2", "other"}; !slices.Equal(got, want) {
		t.Errorf("files: got %q, want %q", got, want)
	}
}

// TestOpen_WithoutADirectory creates a file at the path of the directory for copies.
func TestOpen_WithoutADirectory(t *testing.T) {
	store, digest, _ := frozenStore(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLog(t, store, func(c *Config) { c.CacheDir = path })
	if err := tryOpen(t, l, digest); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %v that names %s", err, syscall.ENOTDIR, path)
	}
}

func TestOpeningEndsWithItsContext(t *testing.T) {
	_, digest, b := frozenStore(t)
	path := filepath.Join(t.TempDir(), digest)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b[0] ^= 1 // a computed digest would not match
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openLocal(ctx, path, snapshotIdentity{digest, testGeneration(), testFirst()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want %v", s, err, context.Canceled)
	}
}

// TestSnapshot_DetectsDamageAfterOpen flips a bit of the local copy while the copy is in use.
func TestSnapshot_DetectsDamageAfterOpen(t *testing.T) {
	store, digest, b := frozenStore(t)
	dir := t.TempDir()
	l := newLog(t, store, func(c *Config) { c.CacheDir = dir })
	s := open(t, l, digest)
	f, err := os.OpenFile(filepath.Join(dir, digest+".weights"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	last := int64(len(b)) - 3
	if _, err := f.WriteAt([]byte{b[last] ^ 4}, last); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Weights(t.Context(), 5); !errors.Is(err, ErrCorrupt) {
		t.Errorf("last chunk: got %v, want %v", err, ErrCorrupt)
	}
	if _, err := s.Weights(t.Context(), 0); err != nil {
		t.Errorf("first chunk: got %v, want no error", err)
	}
}

func TestSnapshotIsUsedByMany(t *testing.T) {
	store, digest, _ := frozenStore(t)
	s := open(t, newLog(t, store), digest)
	want, _ := weightsOf(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				var got []uint32
				for i := range s.Totals() {
					w, err := s.Weights(context.Background(), i)
					if err != nil {
						t.Error(err)
					}
					got = append(got, w...)
				}
				if !slices.Equal(got, want) {
					t.Error("weights differ")
				}
			}
		})
	}
	wg.Wait()
	for _, chunk := range []int{-1, 6} {
		if _, err := s.Weights(t.Context(), chunk); err == nil {
			t.Errorf("chunk %d: got no error", chunk)
		}
	}
}

func TestBlocksInMemoryAreBounded(t *testing.T) {
	store := memstore.New()
	l := newLog(t, store)
	q := request()
	q.First = []uint64{0}
	for range 80 {
		q.First = append(q.First, q.First[len(q.First)-1]+20_000)
	}
	add(t, l, report(epochLosses(43, 1), 0, 8))
	s, err := l.Open(t.Context(), freeze(t, l, q).Digest, testGeneration(), q.First)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 80 {
		if _, err := s.Weights(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	var held int64
	for _, b := range s.cache.chunks {
		held += b.bytes()
	}
	if held != s.cache.bytes || held > cacheBytes || held < cacheBytes/2 || s.cache.chunks[79] == nil {
		t.Errorf("held: got %d bytes, counted %d, and the last block %v, want at most %d and the last block", held, s.cache.bytes, s.cache.chunks[79], cacheBytes)
	}
}

// contents is an in-memory file.
type contents struct{ *bytes.Reader }

func (contents) Close() error { return nil }

// FuzzSnapshot checks that the parser never panics and that accepted snapshots are consistent. It
// recomputes checksums, because otherwise the parser would reject all inputs.
func FuzzSnapshot(f *testing.F) {
	q := request()
	n := int(q.First[len(q.First)-1])
	h := &head{Order: 1, Generation: parseDigest(testGeneration()), Epoch: 3, BatchSize: 8, Samples: uint64(n), Chunks: 6, Positions: 1, HotShare: 200_000, Repeat: 3, Hot: 8}
	var b bytes.Buffer
	w := &snapshotWriter{head: h, plan: testPlan, first: q.First, weights: slices.Repeat([]uint32{Weight(3)}, n)}
	if err := w.writeTo(f.Context(), &b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = resealSnapshot(b)
		want := snapshotIdentity{generation: testGeneration(), first: q.First}
		s, err := parseContent(t.Context(), contents{bytes.NewReader(b)}, int64(len(b)), want)
		if err != nil {
			return
		}
		var sum, hot uint64
		for i := range s.Totals() {
			w, err := s.Weights(t.Context(), i)
			if err != nil || uint64(len(w)) != q.First[i+1]-q.First[i] {
				t.Fatalf("chunk %d: got %d weights, %v", i, len(w), err)
			}
			for _, x := range w {
				sum += uint64(x)
			}
			b, err := s.read(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			hot += b.hot.Count()
		}
		if sum != s.head.Total || hot != s.HotSamples() || s.Coverage() <= 0 || s.Coverage() > 1 {
			t.Fatalf("got sum %d, %d hot, coverage %v; header %+v", sum, hot, s.Coverage(), s.head)
		}
	})
}
