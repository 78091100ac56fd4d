package selection

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// testCosts returns n costs, all of them different.
func testCosts(n int) []uint32 {
	costs := make([]uint32, n)
	for i := range costs {
		costs[i] = uint32(i) * 2654435761
	}
	return costs
}

// pieces yields costs, n at a time.
func pieces(costs []uint32, n int) iter.Seq2[[]uint32, error] {
	return func(yield func([]uint32, error) bool) {
		for part := range slices.Chunk(costs, n) {
			if !yield(part, nil) {
				return
			}
		}
	}
}

// storeCosts stores and names a cost table of a dataset, and returns its digest.
func storeCosts(t testing.TB, s *Store, d dataset) string {
	t.Helper()
	n := d.First()[len(d)]
	digest, _, err := s.WriteCosts(t.Context(), d.Generation(), n, pieces(testCosts(int(n)), 7))
	if err == nil {
		err = s.NameCosts(t.Context(), d.Generation(), "tokens", digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// costsOf returns the costs of samples of a stored table.
func costsOf(t testing.TB, s *Store, d dataset, digest string, samples ...uint64) []uint32 {
	t.Helper()
	c, err := s.OpenCosts(t.Context(), digest, d.Generation(), d.First())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Generation() != d.Generation() || c.Samples() != d.First()[len(d)] {
		t.Errorf("got a table of %d samples of %s", c.Samples(), c.Generation())
	}
	got, err := c.Append(t.Context(), nil, samples)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCosts_AreReadBack reads costs in any order, one sample twice, concurrently, and across the
// ranges that are read at once.
func TestCosts_AreReadBack(t *testing.T) {
	d := testDataset(3, 0, 5000, 1200)
	s, st := newStore(t)
	want := testCosts(6203)
	digest := storeCosts(t, s, d)
	if again, created, err := s.WriteCosts(t.Context(), d.Generation(), 6203, pieces(want, 6203)); err != nil || created || again != digest {
		t.Errorf("the same costs again: got %s, %v, %v, want %s", again, created, err, digest)
	}
	c, err := s.OpenCosts(t.Context(), digest, d.Generation(), d.First())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	st.SetFault(func(memstore.Call) memstore.Fault { return memstore.Fault{Err: errStore} }) // the table is local
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			samples := []uint64{6202, 0, 1023, 1024, 6202}
			for range 500 {
				samples = append(samples, r.Uint64N(6203))
			}
			got, err := c.Append(t.Context(), []uint32{42}, samples)
			if err != nil || len(got) != 1+len(samples) || got[0] != 42 {
				t.Errorf("got %d costs, %v", len(got), err)
				return
			}
			for i, n := range samples {
				if got[1+i] != want[n] {
					t.Errorf("cost of sample %d: got %d, want %d", n, got[1+i], want[n])
				}
			}
		})
	}
	all.Wait()
	if got, err := c.Append(t.Context(), nil, nil); err != nil || len(got) != 0 {
		t.Errorf("no samples: got %d, %v", got, err)
	}
	if _, err := c.Append(t.Context(), nil, []uint64{1, 6203}); err == nil || err.Error() != "cost table: no sample 6203: the dataset has 6203 samples" {
		t.Errorf("a sample beyond the end: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Append(ctx, nil, []uint64{1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Append(t.Context(), nil, []uint64{1}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: got %v, want %v", err, os.ErrClosed)
	}
}

// TestCosts_UnreadableFile truncates a file while it is mapped. To read it is an error, not the end
// of the program.
func TestCosts_UnreadableFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "costs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := &Costs{}
	if err := errors.Join(f.Truncate(1<<20), c.mapFile(f, 1<<20), f.Truncate(0)); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Append(t.Context(), nil, []uint64{1000}); err == nil || !strings.HasPrefix(err.Error(), "cost table: read the local file: ") {
		t.Errorf("got %v", err)
	}
}

// TestNameCosts_NeverChanges gives a name twice to a table, and to another table and generation.
func TestNameCosts_NeverChanges(t *testing.T) {
	s, st := newStore(t)
	one, two, other := strings.Repeat("01", 32), strings.Repeat("02", 32), strings.Repeat("22", 32)
	for range 2 {
		if err := s.NameCosts(t.Context(), testGeneration(), "tokens", one); err != nil {
			t.Fatal(err)
		}
	}
	if b := readObject(t, st, home+costNames+testGeneration()+"-tokens"); string(b) != `{"version":1,"cost":"`+one+"\"}\n" {
		t.Errorf("got the object %s", b)
	}
	err := s.NameCosts(t.Context(), testGeneration(), "tokens", two)
	want := "name tokens of generation 111111111111: invalid: the name has the cost table " + one + " and never changes: use another name for " + two
	if !errors.Is(err, ErrInvalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := s.NameCosts(t.Context(), other, "tokens", two); err != nil {
		t.Errorf("in another generation: %v", err)
	}
	for generation, want := range map[string]string{testGeneration(): one, other: two} {
		if got, err := s.CostsNamed(t.Context(), generation, "tokens"); err != nil || got != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	for _, name := range []string{"", "a,b", "a:b", "-a", one, strings.Repeat("a", 65)} {
		if err := s.NameCosts(t.Context(), testGeneration(), name, one); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want %v", name, err, ErrInvalid)
		}
		if _, err := s.CostsNamed(t.Context(), testGeneration(), name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, want %v", name, err, ErrNotFound)
		}
	}
	_, err = s.CostsNamed(t.Context(), testGeneration(), "pixels")
	if want := "cost table pixels of generation 111111111111: no such object: "; !errors.Is(err, ErrNotFound) || !errors.Is(err, objstore.ErrNotFound) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWriteCosts_Refuses(t *testing.T) {
	s, st := newStore(t)
	fails := func(yield func([]uint32, error) bool) { yield(nil, errStore) }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx        context.Context
		generation string
		samples    uint64
		costs      iter.Seq2[[]uint32, error]
		want       string
	}{
		{t.Context(), testGeneration(), 9, pieces(testCosts(8), 3), "got 8 costs for 9 samples"},
		{t.Context(), testGeneration(), 9, pieces(testCosts(10), 3), "got 10 costs for 9 samples"},
		{t.Context(), testGeneration(), 9, fails, "the store fails"},
		{ctx, testGeneration(), 9, pieces(testCosts(9), 3), "context canceled"},
		{t.Context(), "22", 9, pieces(testCosts(9), 3), `invalid: 9 samples of generation "22": a cost table has at most 2^34 samples of a generation`},
		{t.Context(), testGeneration(), 1<<34 + 1, pieces(nil, 1), `invalid: 17179869185 samples of generation "` + testGeneration() + `": a cost table has at most 2^34 samples of a generation`},
	} {
		_, _, err := s.WriteCosts(c.ctx, c.generation, c.samples, c.costs)
		if err == nil || err.Error() != "store a cost table: "+c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if keys := st.Keys(); len(keys) > 0 {
		t.Errorf("got %q in the bucket, want nothing", keys)
	}
	d := dataset{}
	digest, created, err := s.WriteCosts(t.Context(), d.Generation(), 0, pieces(nil, 1))
	if err != nil || !created {
		t.Fatalf("no samples: got %v, %v", created, err)
	}
	if got := costsOf(t, s, d, digest); len(got) != 0 {
		t.Errorf("no samples: got %d", got)
	}
}

func TestOpenCosts_Refuses(t *testing.T) {
	s, st := newStore(t)
	d := testDataset(4, 5)
	whole := readObject(t, st, home+costDir+storeCosts(t, s, d))
	sealed := func(at int, v byte) []byte {
		b := bytes.Clone(whole)
		b[at] = v
		return sealCosts(b)
	}
	bad := bytes.Clone(whole)
	bad[60] ^= 1
	for _, c := range []struct {
		b    []byte
		kind error
		want string
	}{
		{whole[:47], ErrCorrupt, "invalid size of a cost table: 47 bytes"},
		{sealed(0, 'm'), ErrCorrupt, "not a cost table"},
		{sealed(7, '2'), ErrVersion, `cost table of version "02"`},
		{sealed(8, 9), ErrGeneration, "the cost table belongs to generation 091111111111"},
		{sealed(40, 8), ErrCorrupt, "it has 88 bytes, which is not the size of a table of 8 samples"},
		{sealed(47, 0xc0), ErrCorrupt, "it has 88 bytes, which is not the size of a table of 13835058055282163721 samples"},
		{whole[:87], ErrCorrupt, "it has 87 bytes, which is not the size of a table of 9 samples"},
		{append(bytes.Clone(whole), 0), ErrCorrupt, "it has 89 bytes, which is not the size of a table of 9 samples"},
		{sealCosts(append(append(bytes.Clone(whole[:40]), 8, 0, 0, 0, 0, 0, 0, 0), make([]byte, 36)...)), ErrCorrupt, "it has 8 samples, but the dataset has 9"},
		{bad, ErrCorrupt, "checksum is wrong"},
	} {
		digest := named(st, costDir, c.b)
		_, err := s.OpenCosts(t.Context(), digest, d.Generation(), d.First())
		if !errors.Is(err, c.kind) || !strings.HasPrefix(err.Error(), "cost table "+digest[:12]+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %v: %q", err, c.kind, c.want)
		}
	}
	st.Set(home+costDir+strings.Repeat("ab", 32), whole)
	if _, err := s.OpenCosts(t.Context(), strings.Repeat("ab", 32), d.Generation(), d.First()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "its bytes have the digest") {
		t.Errorf("other bytes: got %v", err)
	}
	for _, digest := range []string{"x", strings.Repeat("00", 32)} {
		if _, err := s.OpenCosts(t.Context(), digest, d.Generation(), d.First()); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", digest, err)
		}
	}
}

// sealCosts recomputes the checksum of a cost table.
func sealCosts(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli()))
	return b
}

// FuzzCosts opens arbitrary bytes, also with a recomputed checksum. A table that opens is written
// again as the same bytes.
func FuzzCosts(f *testing.F) {
	s, st := newStore(f)
	d := testDataset(4, 5)
	f.Add(readObject(f, st, home+costDir+storeCosts(f, s, d)))
	f.Add([]byte(costMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, st := newStore(t)
		for _, in := range [][]byte{b, sealCosts(append(bytes.Clone(b), 0, 0, 0, 0))} {
			digest := named(st, costDir, in)
			c, err := s.OpenCosts(t.Context(), digest, d.Generation(), d.First())
			if err != nil {
				continue
			}
			got, err := c.Append(t.Context(), nil, []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8})
			c.Close()
			if err != nil {
				t.Fatal(err)
			}
			if again, created, err := s.WriteCosts(t.Context(), d.Generation(), 9, pieces(got, 4)); err != nil || created || again != digest {
				t.Fatalf("a table that is read is written otherwise: %v", err)
			}
		}
	})
}

// BenchmarkCosts reads the costs of a batch of 65,536 samples: from runs of 8 samples, as of chunks
// in a window, and from anywhere in a table of 2^24 samples.
func BenchmarkCosts(b *testing.B) {
	const all = 1 << 24
	d := dataset{}
	s, _ := newStore(b)
	digest, _, err := s.WriteCosts(b.Context(), d.Generation(), all, func(yield func([]uint32, error) bool) {
		for range all / 4096 {
			if !yield(testCosts(4096), nil) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	c, err := s.OpenCosts(b.Context(), digest, d.Generation(), []uint64{0, all})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, run := range []int{1, 8, 64} {
		r := rand.New(rand.NewPCG(1, 0))
		var samples []uint64
		for len(samples) < 65536 {
			at := r.Uint64N(all - 64)
			for i := range run {
				samples = append(samples, at+uint64(i))
			}
		}
		r.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
		var costs []uint32
		b.Run(fmt.Sprint("run=", run), func(b *testing.B) {
			for b.Loop() {
				if costs, err = c.Append(b.Context(), costs[:0], samples); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
