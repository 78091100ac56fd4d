package clustersim

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/testing/memstore"
)

// Data is one packed dataset with its index. Every response is compared with it.
type Data struct {
	Name    string
	Prefix  string
	Index   *chunkindex.Index
	objects []object // shards, in stored order
	packed  []byte   // the decoded bytes of all shards, one after another
	start   []int64  // start of each sample in packed
	tables  []*chunkindex.Table
}

type object struct {
	key  string
	data []byte
}

// Shape describes the layout of a dataset.
type Shape struct {
	Form      string // suffix of shard names; empty: "tar"
	Lengths   []int  // sample lengths in bytes
	PerShard  int    // samples per shard
	ChunkSize int64  // target in bytes
}

// Shard formats other than tar.
const (
	gzips   = "tar.gz"  // a shard is one chunk
	zstds   = "tar.zst" // a sample is one frame
	objects = "jpg"     // each object is a sample, and a chunk is many objects
)

// DrawShape draws a dataset of 1 to 40 chunks of unequal sizes.
func DrawShape(seed uint64) Shape {
	rnd := rand.New(rand.NewPCG(seed, 21))
	s := Shape{Lengths: make([]int, 1+rnd.IntN(160)), PerShard: 1 + rnd.IntN(60), ChunkSize: 4<<10 + rnd.Int64N(8<<10)}
	longest := 16 + rnd.IntN(2000)
	for i := range s.Lengths {
		s.Lengths[i] = rnd.IntN(longest)
	}
	for chunks := len(s.Lengths) * (longest/2 + 1024) / int(s.ChunkSize); chunks > 30; chunks /= 2 {
		s.ChunkSize *= 2
	}
	switch seed % 6 {
	case 1:
		s.Form, s.PerShard = gzips, 1+rnd.IntN(12)
		s.PerShard = max(s.PerShard, len(s.Lengths)/40)
	case 3:
		s.Form = zstds
	case 5:
		s.Form, s.PerShard = objects, 1
		for i := range s.Lengths {
			s.Lengths[i]++ // no sample is empty
		}
	}
	return s
}

// NewData packs and indexes a dataset; seed determines its bytes. dir holds the index until Close.
func NewData(ctx context.Context, dir, name string, seed uint64, shape Shape) (*Data, error) {
	d := &Data{Name: name, Prefix: name + "/"}
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	for first := 0; first < len(shape.Lengths); first += shape.PerShard {
		if err := d.pack(shape, random, first, min(first+shape.PerShard, len(shape.Lengths))); err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	store := memstore.New()
	d.stock(store)
	if _, err := build.Run(ctx, store, d.Prefix, build.Options{ChunkSize: shape.ChunkSize, Parallel: 1, TempDir: dir}); err != nil {
		return nil, fmt.Errorf("index %s: %w", name, err)
	}
	cache, err := os.MkdirTemp(dir, "index")
	if err != nil {
		return nil, err
	}
	if d.Index, err = chunkindex.Open(ctx, store, d.Prefix, chunkindex.OpenOptions{CacheDir: cache}); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	for c := range d.Index.Chunks() {
		t, err := d.Index.Table(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
		d.tables = append(d.tables, t)
	}
	return d, nil
}

// pack creates a shard with the samples first to end-1.
func (d *Data) pack(shape Shape, random *rand.ChaCha8, first, end int) error {
	form := shape.Form
	if form == "" {
		form = "tar"
	}
	var plain, stored bytes.Buffer
	w, done := tar.NewWriter(&plain), 0
	for i := first; i < end; i++ {
		d.start = append(d.start, int64(len(d.packed)+plain.Len()))
		body := make([]byte, shape.Lengths[i])
		_, _ = random.Read(body) // never fails
		if form == objects {
			plain.Write(body)
			continue
		}
		if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%07d.bin", i), Size: int64(len(body)), Mode: 0o644}); err != nil {
			return err
		}
		if _, err := w.Write(body); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if form == zstds {
			if err := compress(&stored, form, plain.Bytes()[done:]); err != nil {
				return err
			}
			done = plain.Len()
		}
	}
	if form != objects {
		if err := w.Close(); err != nil {
			return err
		}
	}
	if err := compress(&stored, form, plain.Bytes()[done:]); err != nil {
		return err
	}
	d.packed = append(d.packed, plain.Bytes()...)
	d.objects = append(d.objects, object{fmt.Sprintf("%ss%05d.%s", d.Prefix, first/shape.PerShard, form), stored.Bytes()})
	return nil
}

// compress appends bytes to a shard, in the shard's format.
func compress(to *bytes.Buffer, form string, b []byte) error {
	var w io.WriteCloser
	switch form {
	case gzips:
		w = gzip.NewWriter(to)
	case zstds:
		var err error
		if w, err = zstd.NewWriter(to, zstd.WithEncoderConcurrency(1)); err != nil {
			return err
		}
	default:
		to.Write(b)
		return nil
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}

// Close closes the index.
func (d *Data) Close() error { return d.Index.Close() }

// stock puts the shards into an empty store, with the versions that the index names.
func (d *Data) stock(s *memstore.Store) {
	for _, o := range d.objects {
		s.Set(o.key, o.data)
	}
}

// bytes returns the packed bytes of a whole chunk.
func (d *Data) bytes(chunk int) []byte {
	c := d.Index.Chunk(chunk)
	return d.packed[d.start[c.First]:][:c.Length]
}

// byReads reports whether each sample requires its own store read, even though chunks are cached.
func (d *Data) byReads() bool { return d.Index.ExtentCount(0) > 1 }

// ranges returns the byte ranges of samples: sample k becomes segment k.
func (d *Data) ranges(samples []uint64) []batch.ChunkRanges {
	place := map[int]int{}
	var out []batch.ChunkRanges
	for seq, n := range samples {
		c := d.Index.ChunkOf(n)
		if _, ok := place[c]; !ok {
			place[c] = len(out)
			out = append(out, batch.ChunkRanges{Chunk: c})
		}
		t, i := d.tables[c], n-d.Index.Chunk(c).First
		r := &out[place[c]].Ranges
		*r = append(*r, batch.Range{Seq: seq, Offset: t.Offset(int(i)), Length: t.Length(int(i)), CRC32C: t.CRC32C(int(i))})
	}
	return out
}

// sample returns the stored bytes of a sample.
func (d *Data) sample(n uint64) []byte {
	c := d.Index.ChunkOf(n)
	t, i := d.tables[c], n-d.Index.Chunk(c).First
	return d.bytes(c)[t.Offset(int(i)):][:t.Length(int(i))]
}

// stored returns the total stored bytes of all chunks.
func (d *Data) stored() (n int64) {
	for c := range d.Index.Chunks() {
		n += d.Index.Chunk(c).Length
	}
	return n
}
