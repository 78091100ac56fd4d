package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/memstore"
	"github.com/millrace-data/millrace/internal/testing/shaped"
)

// sampleBytes is the length of a sample: a tar header and 3,584 bytes of content. The content
// begins with the sample's number in eight bytes, so that a reader can identify it.
const sampleBytes = 4096

// distant returns the shape of the store in all experiments that do not define another one.
func distant() shaped.Shape {
	return shaped.Shape{FirstByte: 20 * time.Millisecond, Stream: 80e6, Total: 500e6}
}

const distantText = "store in memory, shaped: 20 ms to the first byte, 80 MB/s per stream, 500 MB/s in total"

// data is a dataset in a shaped store. All chunks have equal size, and so have all samples.
type data struct {
	chunks, each int // number of chunks, and of samples in each
	inner        *memstore.Store
	store        *shaped.Store
	index        *chunkindex.Index
}

const prefix = "d/"

// newData writes and indexes a dataset. A chunk has each samples of sampleBytes.
func newData(ctx context.Context, chunks, each int, shape shaped.Shape) (*data, error) {
	d := &data{chunks: chunks, each: each, inner: memstore.New()}
	const shardChunks = 32
	for at := 0; at < chunks; at += shardChunks {
		shard, err := d.tar(at, min(at+shardChunks, chunks))
		if err != nil {
			return nil, err
		}
		d.inner.Set(fmt.Sprintf("%sshard-%06d.tar", prefix, at/shardChunks), shard)
	}
	chunkSize := int64(each) * sampleBytes
	if _, err := build.Run(ctx, d.inner, prefix, build.Options{ChunkSize: chunkSize, Parallel: 2}); err != nil {
		return nil, err
	}
	var err error
	if d.index, err = chunkindex.Open(ctx, d.inner, prefix, chunkindex.OpenOptions{}); err != nil {
		return nil, err
	}
	if d.index.Chunks() != chunks || d.index.Samples() != uint64(d.samples()) {
		return nil, fmt.Errorf("dataset: got %d chunks of %d samples, want %d of %d", d.index.Chunks(), d.index.Samples(), chunks, d.samples())
	}
	d.store = shaped.New(d.inner, shape)
	return d, nil
}

func (d *data) close() error { return d.index.Close() }

func (d *data) samples() int      { return d.chunks * d.each }
func (d *data) bytes() int64      { return int64(d.samples()) * sampleBytes }
func (d *data) chunkBytes() int64 { return int64(d.each) * sampleBytes }

// tar returns one shard with the chunks lo to hi-1.
func (d *data) tar(lo, hi int) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, 0, (hi-lo)*d.each*sampleBytes+1024))
	w := tar.NewWriter(buf)
	content := make([]byte, sampleBytes-512)
	random := rand.NewChaCha8([32]byte{byte(lo), byte(lo >> 8)})
	for i := lo * d.each; i < hi*d.each; i++ {
		if _, err := random.Read(content); err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(content, uint64(i))
		if err := w.WriteHeader(&tar.Header{Name: sampleName(i), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func sampleName(i int) string { return fmt.Sprintf("%08d.bin", i) }

// numberOf returns a sample's number from its bytes.
func numberOf(sample []byte) uint64 { return binary.LittleEndian.Uint64(sample[512:]) }

// ref returns the object and the offset of a sample, for arms that read the store directly.
func (d *data) ref(sample int) (objstore.Ref, int64) {
	chunk := sample / d.each
	e := d.index.Extents(chunk)[0]
	s := d.index.Shard(e.Shard)
	return objstore.Ref{Key: prefix + s.Key, ETag: s.ETag}, e.Offset + int64(sample%d.each)*sampleBytes
}

// ranges returns the chunk ranges of a batch, as a gateway computes them.
func (d *data) ranges(ctx context.Context, index *chunkindex.Index, samples []uint64) ([]batch.ChunkRanges, error) {
	var chunks []batch.ChunkRanges
	place := map[int]int{}
	for seq, s := range samples {
		c := int(s) / d.each
		t, err := index.Table(ctx, c)
		if err != nil {
			return nil, err
		}
		at, ok := place[c]
		if !ok {
			at = len(chunks)
			place[c] = at
			chunks = append(chunks, batch.ChunkRanges{Chunk: c})
		}
		k := int(s) % d.each
		chunks[at].Ranges = append(chunks[at].Ranges, batch.Range{Seq: seq, Offset: t.Offset(k), Length: t.Length(k), CRC32C: t.CRC32C(k)})
	}
	return chunks, nil
}
