package datapath

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/leaks"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/shuffle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dataset is a dataset in memory, with its index.
type dataset struct {
	store  *memstore.Store
	index  *chunkindex.Index
	packed []byte  // decoded bytes of all objects, concatenated
	start  []int64 // offset of each sample in packed
}

// The forms in which a dataset may be stored.
const (
	tars    = "tar"
	gzips   = "tar.gz"  // each shard is one chunk
	zstds   = "tar.zst" // each shard has many small frames
	objects = "jpg"     // each object is a sample
)

func forms() []string { return []string{tars, gzips, zstds, objects} }

// newDataset stores samples of the given lengths as tar files, perShard to a shard.
func newDataset(tb testing.TB, seed uint64, lengths []int, perShard int, chunkSize int64) *dataset {
	tb.Helper()
	return newDatasetOf(tb, tars, seed, lengths, perShard, chunkSize)
}

// newDatasetOf stores samples of the given lengths in one of the forms. Objects are one byte
// longer, so that none is empty.
func newDatasetOf(tb testing.TB, form string, seed uint64, lengths []int, perShard int, chunkSize int64) *dataset {
	tb.Helper()
	leaks.Check(tb)
	random := rand.NewChaCha8([32]byte{byte(seed)})
	d := &dataset{store: memstore.New()}
	if form == objects {
		perShard = 1
	}
	for first := 0; first < len(lengths); first += perShard {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := first; i < min(first+perShard, len(lengths)); i++ {
			d.start = append(d.start, int64(len(d.packed)+b.Len()))
			body := make([]byte, lengths[i], lengths[i]+1)
			_, err := random.Read(body)
			must(tb, err)
			if form == objects {
				b.Write(append(body, byte(i)))
				continue
			}
			must(tb, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%07d.bin", i), Size: int64(len(body)), Mode: 0o644}))
			_, err = w.Write(body)
			must(tb, err)
			must(tb, w.Flush())
		}
		if form != objects {
			must(tb, w.Close())
		}
		d.packed = append(d.packed, b.Bytes()...)
		d.store.Set(fmt.Sprintf("set/s%05d.%s", first/perShard, form), stored(tb, form, b.Bytes()))
	}
	_, err := build.Run(tb.Context(), d.store, "set/", build.Options{ChunkSize: chunkSize, Parallel: 1})
	must(tb, err)
	d.index, err = chunkindex.Open(tb.Context(), d.store, "set/", chunkindex.OpenOptions{CacheDir: tb.TempDir()})
	must(tb, err)
	tb.Cleanup(func() { d.index.Close() })
	d.store.Reset()
	return d
}

// stored compresses an object as its format requires.
func stored(tb testing.TB, form string, b []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	switch form {
	case gzips:
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		must(tb, err)
		must(tb, w.Close())
	case zstds:
		for frame := range slices.Chunk(b, 1500) {
			w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
			must(tb, err)
			_, err = w.Write(frame)
			must(tb, err)
			must(tb, w.Close())
		}
	default:
		return b
	}
	return out.Bytes()
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func same(n, length int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = length
	}
	return l
}

// ranges locates samples: the k-th sample becomes segment k.
func (d *dataset) ranges(tb testing.TB, samples []uint64) []batch.ChunkRanges {
	tb.Helper()
	place := map[int]int{}
	var out []batch.ChunkRanges
	for seq, n := range samples {
		c := d.index.ChunkOf(n)
		t, err := d.index.Table(context.Background(), c)
		must(tb, err)
		if _, ok := place[c]; !ok {
			place[c] = len(out)
			out = append(out, batch.ChunkRanges{Chunk: c})
		}
		i := n - d.index.Chunk(c).First
		r := &out[place[c]].Ranges
		*r = append(*r, batch.Range{Seq: seq, Offset: t.Offset(int(i)), Length: t.Length(int(i)), CRC32C: t.CRC32C(int(i))})
	}
	return out
}

// stored returns the bytes of a range from packed.
func (d *dataset) stored(c int, r batch.Range) []byte {
	return d.packed[d.start[d.index.Chunk(c).First]+int64(r.Offset):][:r.Length]
}

// check compares a body with the stored bytes, before and after the body settles.
func (d *dataset) check(chunks []batch.ChunkRanges, body *batch.Body) error {
	if err := d.compare(chunks, body); err != nil {
		return err
	}
	body.Settle()
	if err := d.compare(chunks, body); err != nil {
		return fmt.Errorf("settled: %w", err)
	}
	return nil
}

func (d *dataset) compare(chunks []batch.ChunkRanges, body *batch.Body) error {
	n := 0
	for _, c := range chunks {
		for _, r := range c.Ranges {
			n++
			if got := body.Segments[r.Seq]; !bytes.Equal(got, d.stored(c.Chunk, r)) {
				return fmt.Errorf("chunk %d segment %d: got other bytes than stored", c.Chunk, r.Seq)
			}
		}
	}
	if got := len(body.Segments); got != n {
		return fmt.Errorf("got %d segments, want %d", got, n)
	}
	return nil
}

func (d *dataset) plan(tb testing.TB, name string, window uint64) *shuffle.Plan {
	tb.Helper()
	p, err := shuffle.NewPlan(shuffle.Params{Shuffle: name, Window: window, Seed: 7}, d.index.First())
	must(tb, err)
	return p
}

// newPath returns a path in debug mode, and checks at the end that no resources are held.
func newPath(tb testing.TB, cfg Config) *Path {
	tb.Helper()
	leaks.Check(tb)
	cfg.Debug = true
	p := New(cfg)
	tb.Cleanup(func() { finish(tb, p) })
	return p
}

// readEpoch reads one epoch batch by batch and checks every byte.
func (d *dataset) readEpoch(tb testing.TB, s *Source, p *shuffle.Plan, epoch, batch uint64) {
	tb.Helper()
	e := p.Epoch(epoch)
	var samples []uint64
	for lo := uint64(0); lo < p.Samples(); lo += batch {
		hi := min(lo+batch, p.Samples())
		samples = e.Append(samples[:0], lo, hi)
		chunks := d.ranges(tb, samples)
		at := shuffle.Cursor{Plan: p, Epoch: e, First: lo, End: hi, BatchSize: batch}
		body, err := s.Read(tb.Context(), at, chunks)
		must(tb, err)
		must(tb, d.compare(chunks, body))
		body.Close()
	}
}

func bud(n int64) *budget.Budget { return budget.New(n, 0) }
