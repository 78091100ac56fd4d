package simulate

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// Data is the model of a dataset: the location and the number of samples of each chunk. All samples
// of a chunk count as equally long.
type Data struct {
	First  []uint64 // cumulative sample counts: chunk i has the samples First[i] to First[i+1]-1
	Chunks []Chunk
	Digest func(chunk int) [32]byte // digests of chunks, which determine their owners in a cluster; nil: derived from the chunk numbers

	joined int64 // number of samples that one sample of the model represents; 0: 1
}

// Chunk describes one stored chunk.
type Chunk struct {
	Shard   int
	Offset  int64
	Length  int64 // total bytes of its samples
	Stored  int64 // bytes in the store if it is compressed; 0: Length
	Extents int64 // number of its objects, or of its ranges of a shard, each read separately; 0: one range
}

// stored returns the number of bytes that a read of the chunk transfers.
func (c *Chunk) stored() int64 {
	if c.Stored > 0 {
		return c.Stored
	}
	return c.Length
}

// extra returns the number of additional bytes that its load needs: the stored bytes to decode.
func (c *Chunk) extra() int64 { return c.Stored }

// shardSize is the size of shards of uniform data: adjacent chunks in one shard may be read
// together.
const shardSize = 256 << 20

// Uniform returns data with the given number of samples of sampleSize bytes, and perChunk samples
// in each chunk.
func Uniform(samples, perChunk uint64, sampleSize int64) (*Data, error) {
	switch {
	case samples == 0 || perChunk == 0 || sampleSize <= 0:
		return nil, errors.New("at least one sample, one sample per chunk and one byte per sample are required")
	case samples > math.MaxInt64/uint64(sampleSize):
		return nil, fmt.Errorf("%d samples of %d bytes: the total size exceeds 2^63 bytes", samples, sampleSize)
	case perChunk > (1<<30)/uint64(sampleSize):
		return nil, fmt.Errorf("chunks of %d samples of %d bytes: a chunk must have at most 1 GiB", perChunk, sampleSize)
	case (samples-1)/perChunk >= maxChunks:
		return nil, fmt.Errorf("%d samples, with %d per chunk, make more than %d chunks", samples, perChunk, maxChunks)
	}
	n := int((samples-1)/perChunk) + 1
	d := &Data{First: make([]uint64, n+1), Chunks: make([]Chunk, n)}
	var shard int
	var offset int64
	for i := range n {
		d.First[i+1] = min(d.First[i]+perChunk, samples)
		length := int64(d.First[i+1]-d.First[i]) * sampleSize
		if offset > 0 && offset+length > shardSize {
			shard, offset = shard+1, 0
		}
		d.Chunks[i] = Chunk{Shard: shard, Offset: offset, Length: length}
		offset += length
	}
	return d, nil
}

// maxChunks limits the number of chunks: each takes about a hundred bytes in the model, and run
// time.
const maxChunks = 1 << 24

// Samples returns the number of samples.
func (d *Data) Samples() uint64 { return d.First[len(d.First)-1] }

// each returns the number of samples that one sample of the model represents.
func (d *Data) each() int64 { return max(d.joined, 1) }

// Bytes returns the total length of all chunks.
func (d *Data) Bytes() (n int64) {
	for _, c := range d.Chunks {
		n += c.Length
	}
	return n
}

// cost returns the memory for all chunks.
func (d *Data) cost() (n int64) {
	for _, c := range d.Chunks {
		n += chunkcache.Cost(c.Length)
	}
	return n
}

// samplesOf returns the number of samples in a chunk.
func (d *Data) samplesOf(chunk int32) int64 { return int64(d.First[chunk+1] - d.First[chunk]) }

// bytesOf returns the bytes of n samples of a chunk.
func (d *Data) bytesOf(chunk int32, n int64) int64 {
	all := d.samplesOf(chunk)
	if all == 0 || n >= all {
		return d.Chunks[chunk].Length
	}
	return int64(float64(d.Chunks[chunk].Length) * float64(n) / float64(all))
}

// largest returns the memory for the load of the largest chunk.
func (d *Data) largest() (n int64) {
	for _, c := range d.Chunks {
		n = max(n, c.Length+c.extra())
	}
	return n
}

// thinRun is the number of adjacent chunks that stay together in thinned data, so that reads of
// adjacent chunks are joined as often as in the whole.
const thinRun = 16

// thin returns the given fraction of the data, evenly spread.
func (d *Data) thin(part, of int) *Data {
	if part >= of {
		return d
	}
	t := &Data{First: []uint64{0}}
	var from []int32
	for i, c := range d.Chunks {
		if i/thinRun*part%of < part {
			t.Chunks = append(t.Chunks, c)
			t.First = append(t.First, t.Samples()+d.First[i+1]-d.First[i])
			from = append(from, int32(i))
		}
	}
	t.Digest = func(chunk int) [32]byte { return d.digest(int(from[chunk])) }
	return t
}
