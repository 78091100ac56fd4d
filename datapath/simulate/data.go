package simulate

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// Data is what the model knows of a dataset: where its chunks lie, and how many samples each holds. Samples of a
// chunk count as equally long.
type Data struct {
	First  []uint64 // cumulative samples: chunk i holds First[i] to First[i+1]-1
	Chunks []Chunk
	Digest func(chunk int) [32]byte // which gateway of a cluster owns it may go by that; nil: made up

	joined int64 // samples of a chunk for which one stands; 0: it is itself
}

// Chunk is one chunk as it is stored.
type Chunk struct {
	Shard   int
	Offset  int64
	Length  int64 // of its samples
	Stored  int64 // bytes in the store, where it is compressed; 0: Length
	Extents int64 // objects of which it is made, or stretches of a shard, each read by itself; 0: it is one stretch
}

// stored is how many bytes a read of the chunk brings.
func (c *Chunk) stored() int64 {
	if c.Stored > 0 {
		return c.Stored
	}
	return c.Length
}

// beside is how many bytes its load needs beside its own: of what is decoded.
func (c *Chunk) beside() int64 { return c.Stored }

// shardSize is how large shards of made-up data are: neighbours in one shard may be read together.
const shardSize = 256 << 20

// Uniform returns data of so many samples of so many bytes each, perChunk of them to a chunk.
func Uniform(samples, perChunk uint64, sampleSize int64) (*Data, error) {
	switch {
	case samples == 0 || perChunk == 0 || sampleSize <= 0:
		return nil, errors.New("want at least one sample, one sample a chunk and one byte a sample")
	case samples > math.MaxInt64/uint64(sampleSize):
		return nil, fmt.Errorf("%d samples of %d bytes: more than can be counted", samples, sampleSize)
	case perChunk > (1<<30)/uint64(sampleSize):
		return nil, fmt.Errorf("chunks of %d samples of %d bytes: a chunk is 1 GiB at most", perChunk, sampleSize)
	case (samples-1)/perChunk >= maxChunks:
		return nil, fmt.Errorf("%d samples, %d to a chunk: more than %d chunks", samples, perChunk, maxChunks)
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

// maxChunks bounds what is followed: each chunk takes a hundred bytes here, and its share of the time.
const maxChunks = 1 << 24

// Samples returns the number of samples.
func (d *Data) Samples() uint64 { return d.First[len(d.First)-1] }

// each is for how many samples of a chunk one stands.
func (d *Data) each() int64 { return max(d.joined, 1) }

// Bytes returns the length of all chunks together.
func (d *Data) Bytes() (n int64) {
	for _, c := range d.Chunks {
		n += c.Length
	}
	return n
}

// cost is what all chunks take in memory together.
func (d *Data) cost() (n int64) {
	for _, c := range d.Chunks {
		n += chunkcache.Cost(c.Length)
	}
	return n
}

// samplesOf returns how many samples a chunk holds.
func (d *Data) samplesOf(chunk int32) int64 { return int64(d.First[chunk+1] - d.First[chunk]) }

// bytesOf returns the bytes of n samples of a chunk.
func (d *Data) bytesOf(chunk int32, n int64) int64 {
	all := d.samplesOf(chunk)
	if all == 0 || n >= all {
		return d.Chunks[chunk].Length
	}
	return int64(float64(d.Chunks[chunk].Length) * float64(n) / float64(all))
}

// largest is what the load of the largest chunk takes.
func (d *Data) largest() (n int64) {
	for _, c := range d.Chunks {
		n = max(n, c.Length+c.beside())
	}
	return n
}

// thinRun is how many neighbours stay together in thinned data, so that reads of neighbours are joined as often.
const thinRun = 16

// thin returns so many parts of all, evenly.
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
