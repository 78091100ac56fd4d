package diskcache

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestChunksSurviveARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c := open(t, Config{Dir: dir})
	sizes := []int{0, 1, 4000, 5000, 70000}
	for i, n := range sizes {
		mustWrite(t, c, i, n)
		wantThere(t, c, i, n, true)
	}
	before := c.Stats()
	c.Close()
	c = open(t, Config{Dir: dir})
	defer c.Close()
	for i, n := range sizes {
		wantThere(t, c, i, n, true)
	}
	wantThere(t, c, 99, 10, false)
	s := c.Stats()
	if s.Chunks != 5 || s.Bytes != before.Bytes || s.Hits != 5 || s.HitBytes != 79001 || s.Strays != 0 {
		t.Errorf("got %+v, want 5 chunks of %d bytes, 5 hits of 79001 bytes", s, before.Bytes)
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "cache")
	c := open(t, Config{Dir: dir})
	defer c.Close()
	mustWrite(t, c, 1, 10)
	file := onlyFile(t, dir)
	for p, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, chunkDir): 0o700, filepath.Dir(file): 0o700, file: 0o600} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got %v and %v, want %v", p, info.Mode().Perm(), err, want)
		}
	}
}

// TestNoPrefixOfAFileIsServed truncates a chunk file at every length, before a start and while the
// cache is running.
func TestNoPrefixOfAFileIsServed(t *testing.T) {
	const n = 40
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	key := mustWrite(t, c, 1, n)
	whole, err := os.ReadFile(onlyFile(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
	for cut := range len(whole) {
		for _, restart := range []bool{false, true} {
			if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			before := c.Stats()
			if restart {
				c.Close()
				c, before = open(t, Config{Dir: dir}), Stats{}
			} else {
				list(c, key)
			}
			wantThere(t, c, 1, n, false)
			s := c.Stats()
			if removed := s.Corrupt + s.Strays - before.Corrupt - before.Strays; removed != 1 || s.Chunks != 0 || len(chunkFiles(t, dir)) != 0 {
				t.Fatalf("cut at %d: got %+v and %d files, want it counted and removed", cut, s, len(chunkFiles(t, dir)))
			}
		}
	}
	c.Close()
}

// list adds a chunk to the list, as a start that finds its file would, and clears earlier errors.
func list(c *Cache, key Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries[key.name()] = entry{size: Cost(key.Length)}
	c.bytes = Cost(key.Length)
	c.reads.pauses.Forget(all)
}

// TestNoFlippedBitIsServed flips each bit of a chunk file.
func TestNoFlippedBitIsServed(t *testing.T) {
	const n = 100
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	key := mustWrite(t, c, 1, n)
	file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		list(c, key)
		wantThere(t, c, 1, n, false)
		if s := c.Stats(); s.Corrupt != uint64(bit+1) || s.Chunks != 0 || len(chunkFiles(t, dir)) != 0 {
			t.Fatalf("bit %d: got %+v, want one file more removed", bit, s)
		}
	}
	c.Close()
}

// TestNoSubsetOfTheBlocksIsServed checks that a file with missing blocks is not served. After a
// power failure any blocks may be missing, regardless of the order of syncs.
func TestNoSubsetOfTheBlocksIsServed(t *testing.T) {
	const blocks = 8
	n := blocks*block - footerSize
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key := mustWrite(t, c, 1, n)
	file := onlyFile(t, dir)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for lost := 1; lost < 1<<blocks; lost++ {
		b := bytes.Clone(whole)
		for i := range blocks {
			if lost&(1<<i) != 0 {
				clear(b[i*block : (i+1)*block])
			}
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		list(c, key)
		wantThere(t, c, 1, n, false)
		if s := c.Stats(); s.Corrupt != uint64(lost) || s.Chunks != 0 {
			t.Fatalf("blocks %b lost: got %+v, want one file more removed", lost, s)
		}
	}
}

// TestFileOfAnotherKeyIsNotServed stores complete, valid files under the names of other keys.
func TestFileOfAnotherKeyIsNotServed(t *testing.T) {
	const n = 64
	key, data := chunkOf(1, n)
	other, _ := chunkOf(2, n)
	foreign := key
	foreign.Source[0]++
	sameDigest := key
	sameDigest.CRC32C++
	for name, writer := range map[string]Key{"other chunk": other, "other source": foreign, "other checksum": sameDigest} {
		dir := t.TempDir()
		c := open(t, Config{Dir: dir})
		file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, writer.appendFooter(bytes.Clone(data)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Close()
		c = open(t, Config{Dir: dir})
		wantThere(t, c, 1, n, false)
		if s := c.Stats(); s.Corrupt != 1 || s.Chunks != 0 {
			t.Errorf("%s: got %+v, want one file removed", name, s)
		}
		c.Close()
	}
}

// Each piece of a chunk has its own checksum, so corruption elsewhere in the file does not affect
// it.
func TestReadPieces_ChecksEachPiece(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key, data := chunkOf(1, 1000)
	mustWrite(t, c, 1, 1000)
	b, err := os.ReadFile(onlyFile(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	b[500] ^= 1
	if err := os.WriteFile(onlyFile(t, dir), b, 0o600); err != nil {
		t.Fatal(err)
	}
	piece := func(from, to int) Piece {
		return Piece{int64(from), crc32.Checksum(data[from:to], castagnoli()), make([]byte, to-from)}
	}
	good := []Piece{piece(0, 500), piece(501, 1000), piece(7, 8)}
	if !c.ReadPieces(t.Context(), key, good) || !bytes.Equal(good[1].Dst, data[501:]) || !bytes.Equal(good[2].Dst, data[7:8]) {
		t.Error("pieces next to the wrong byte: got no or other bytes, want theirs")
	}
	if c.ReadPieces(t.Context(), key, []Piece{piece(0, 10), piece(400, 600)}) || c.Contains(key) {
		t.Error("a piece with the wrong byte: got it, or its file stays")
	}
	if s := c.Stats(); s.Hits != 1 || s.HitBytes != 1000 || s.Corrupt != 1 {
		t.Errorf("got %+v, want one hit of 1000 bytes and one file removed", s)
	}
}

// TestWrongBytesAreNotServed checks that wrong bytes from any writer are detected when they are
// read, and that their file is removed.
func TestWrongBytesAreNotServed(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	key, data := chunkOf(1, 100)
	if c.Write(t.Context(), key, 1, data[:99]) || c.Stats().Chunks != 0 {
		t.Errorf("write too few bytes: got %+v, want nothing kept", c.Stats())
	}
	data[3] ^= 1
	if !c.Write(t.Context(), key, 1, data) {
		t.Error("write wrong bytes: got a refusal")
	}
	if c.Read(t.Context(), key, make([]byte, 100)) {
		t.Error("read wrong bytes: got them, want none")
	}
	if s := c.Stats(); s.Corrupt != 1 || s.Chunks != 0 || len(chunkFiles(t, dir)) != 0 {
		t.Errorf("got %+v and %d files, want none", s, len(chunkFiles(t, dir)))
	}
}

func TestRejectedChunkIsRemoved(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	c.Reject(t.Context(), mustWrite(t, c, 1, 100))
	if s := c.Stats(); s.Corrupt != 1 || s.Bytes != 0 || len(chunkFiles(t, dir)) != 0 {
		t.Errorf("got %+v and %d files, want none", s, len(chunkFiles(t, dir)))
	}
}

func TestStraysAreRemovedAtStart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	key := mustWrite(t, c, 1, 100)
	c.Close()
	file := filepath.Join(dir, filepath.FromSlash(key.name().file()))
	sub := filepath.Dir(file)
	elsewhere := filepath.Join(dir, chunkDir, "zz")
	strays := []string{file + ".7.tmp", filepath.Join(sub, "notes.txt"), filepath.Join(sub, "0011223344556677"), filepath.Join(sub, "00")}
	wrongPlace := filepath.Join(dir, chunkDir, "00", filepath.Base(file))
	if filepath.Base(sub) == "00" {
		wrongPlace = filepath.Join(dir, chunkDir, "01", filepath.Base(file))
	}
	for _, p := range append(strays, wrongPlace) {
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, make([]byte, 300), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, filepath.Join(sub, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	c = open(t, Config{Dir: dir})
	defer c.Close()
	if s := c.Stats(); s.Strays != 6 || s.Chunks != 1 || onlyFile(t, dir) != file {
		t.Errorf("got %+v, want 6 strays removed and one chunk", s)
	}
	wantThere(t, c, 1, 100, true)
}

func TestSmallerSizeRemovesTheSurplusAtStart(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	for i := range 20 {
		mustWrite(t, c, i, 3000)
	}
	c.Close()
	c = open(t, Config{Dir: dir, MaxBytes: 5 * block})
	defer c.Close()
	if s := c.Stats(); s.Chunks != 5 || s.Bytes != 5*block || len(chunkFiles(t, dir)) != 5 {
		t.Errorf("got %+v and %d files, want 5", s, len(chunkFiles(t, dir)))
	}
}

// TestFileRemovedByOthersIsOnlyAMiss checks that a read is a miss if another program has removed
// files of a running cache.
func TestFileRemovedByOthersIsOnlyAMiss(t *testing.T) {
	dir := t.TempDir()
	c := open(t, Config{Dir: dir})
	defer c.Close()
	mustWrite(t, c, 1, 100)
	if err := os.RemoveAll(filepath.Dir(onlyFile(t, dir))); err != nil {
		t.Fatal(err)
	}
	wantThere(t, c, 1, 100, false)
	if s := c.Stats(); s.Corrupt != 0 || s.ReadErrors != 0 || s.Bytes != 0 {
		t.Errorf("got %+v, want a miss", s)
	}
	mustWrite(t, c, 1, 100) // creates the directory again
	wantThere(t, c, 1, 100, true)
	// If the whole directory is removed, nothing is written to it. Chunks in a directory
	// without a marker would prevent gateways from starting with it.
	var told []error
	c.cfg.Tell = func(_ string, err error) { told = append(told, err) }
	if err := os.RemoveAll(filepath.Join(dir, chunkDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, markerFile)); err != nil {
		t.Fatal(err)
	}
	wantThere(t, c, 1, 100, false)
	key, data := chunkOf(1, 100)
	if c.Write(t.Context(), key, 1, data) || len(told) != 1 || !errors.Is(told[0], os.ErrNotExist) {
		t.Errorf("write without the directory: got it kept, or %v told, want the cause", told)
	}
	c.Close()
	open(t, Config{Dir: dir}).Close()
}

// TestModel runs random programs against a map, including restarts.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()                 // a new directory for each program
		next := map[uint64]time.Duration{} // 0: the chunk is needed now
		until := func(ref uint64) time.Duration { return next[ref] }
		cfg := Config{Dir: dir, MaxBytes: 6 * block}
		c := open(t, cfg, until)
		kept := map[int]bool{}
		sizes := []int{0, 100, 4000, 5000, 9000, 1, 101, 4001, 5001, 9001}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			i := rapid.IntRange(0, 9).Draw(rt, "chunk")
			key, data := chunkOf(i, sizes[i])
			switch rapid.SampledFrom([]string{"write", "read", "plan", "restart"}).Draw(rt, "step") {
			case "write":
				if c.Write(t.Context(), key, uint64(i), data) {
					kept[i] = true
				}
				if kept[i] && !c.Contains(key) {
					rt.Fatalf("chunk %d was kept and is not there", i)
				}
			case "read":
				dst := make([]byte, len(data))
				if got := c.Read(t.Context(), key, dst); got && (!kept[i] || !bytes.Equal(dst, data)) {
					rt.Fatalf("chunk %d: got bytes that were not written", i)
				} else if got != c.Contains(key) {
					rt.Fatalf("chunk %d: read %v, contains %v", i, got, !got)
				}
			case "plan":
				next[uint64(i)] = time.Duration(rapid.IntRange(1, 1000).Draw(rt, "due")) * time.Second
			case "restart":
				c.Close()
				c = open(t, cfg, until)
			}
			for i := range kept {
				if key, _ := chunkOf(i, sizes[i]); !c.Contains(key) {
					delete(kept, i) // evicted
				}
			}
			var bytes int64
			for _, n := range chunkFiles(t, dir) {
				bytes += n
			}
			if s := c.Stats(); s.Bytes != bytes || bytes > cfg.MaxBytes || int(s.Chunks) != len(kept) {
				rt.Fatalf("got %+v, want %d chunks of %d bytes", s, len(kept), bytes)
			}
		}
		c.Close()
	})
}

// TestManyAtOnce reads, writes and evicts concurrently. Every read returns the right bytes, even
// while the file is removed, and the counters are right at the end.
func TestManyAtOnce(t *testing.T) {
	const n, chunks = 9000, 24
	dir := t.TempDir()
	var mu sync.Mutex // guards turn
	turn := 0
	c := open(t, Config{Dir: dir, MaxBytes: 8 * 3 * block}, func(ref uint64) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		turn++
		return time.Duration(1+(turn*7919+int(ref)*104729)%1000) * time.Second
	})
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 3 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range 150 {
				i := random.IntN(chunks)
				key, data := chunkOf(i, n)
				c.Write(t.Context(), key, uint64(i), data)
			}
		})
		readers.Go(func() {
			dst := make([]byte, n)
			for i := w; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				key, data := chunkOf(i%chunks, n)
				if c.Read(t.Context(), key, dst) && !bytes.Equal(dst, data) {
					t.Error("read: got other bytes than were written")
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	var sum int64
	for _, n := range chunkFiles(t, dir) {
		sum += n
	}
	s := c.Stats()
	if s.Bytes != sum || sum > s.MaxBytes || s.Hits == 0 || s.Evictions == 0 || s.Corrupt+s.ReadErrors+s.WriteErrors != 0 {
		t.Errorf("got %+v and %d bytes on disk, want the same, hits, evictions and no errors", s, sum)
	}
	c.Close()
	c = open(t, Config{Dir: dir, MaxBytes: s.MaxBytes})
	defer c.Close()
	if again := c.Stats(); again.Bytes != s.Bytes || again.Strays != 0 {
		t.Errorf("after a restart: got %+v, want %d bytes and no strays", again, s.Bytes)
	}
}

func FuzzFooter(f *testing.F) {
	key, _ := chunkOf(1, 100)
	f.Add(key.appendFooter(nil))
	f.Add(Key{}.appendFooter(nil))
	f.Add(make([]byte, footerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		// A random footer seldom has the right checksum, so set it.
		if len(b) == footerSize {
			sum := crc32.Checksum(b[:92], castagnoli())
			b = append(bytes.Clone(b[:92]), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
		}
		key, err := parseFooter(b)
		if err == nil && (!bytes.Equal(key.appendFooter(nil), b) || key.Length < 0) {
			t.Errorf("got %+v from a footer that is not its own", key)
		}
	})
}

func TestNamesTellKeysApart(t *testing.T) {
	one := Key{Digest: sha256.Sum256(nil), Length: 5, CRC32C: 7}
	seen := map[name]bool{one.name(): true}
	for i, k := range []Key{
		{Digest: one.Digest, Length: 6, CRC32C: 7},
		{Digest: one.Digest, Length: 5, CRC32C: 8},
		{Source: [32]byte{1}, Digest: one.Digest, Length: 5, CRC32C: 7},
		{Length: 5, CRC32C: 7},
	} {
		if seen[k.name()] {
			t.Errorf("key %d: got a name that another has", i)
		}
		seen[k.name()] = true
	}
}
