package plans

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/shuffle"
)

// mixtureIndex concatenates the indexes of a mixture's sources: shards, chunks and samples are
// numbered consecutively. It needs 8 bytes per chunk.
type mixtureIndex struct {
	parts      []Index
	generation string
	defaults   chunkindex.Defaults
	framing    format.Framing // framing of all sources; nil: the framings differ, and bodies are tars
	native     string
	constants  json.RawMessage
	chunks     []int    // first chunk of each part, and total
	shards     []int    // first shard of each part
	samples    []uint64 // first sample of each part
	first      []uint64

	bytes, size                    int64 // sums over all sources
	maxChunk, maxSample, meanParts int64 // maxima over all sources
}

func newMixedIndex(m *mixture, order *shuffle.Mixture) (*mixtureIndex, error) {
	own := m.sources[0].Index
	x := &mixtureIndex{
		generation: m.generation(), framing: own.Framing(), native: own.Native(), constants: own.Constants(),
		chunks: []int{0}, shards: []int{0}, samples: []uint64{0}, first: []uint64{0},
	}
	for i, s := range m.sources {
		p := s.Index
		x.parts = append(x.parts, p)
		x.chunks, x.shards = append(x.chunks, x.chunks[i]+p.Chunks()), append(x.shards, x.shards[i]+p.Shards())
		for _, end := range p.First()[1:] {
			x.first = append(x.first, x.samples[i]+end)
		}
		x.samples = append(x.samples, x.samples[i]+p.Samples())
		if p.Framing() == nil || p.Native() != own.Native() || !bytes.Equal(p.Constants(), own.Constants()) {
			x.framing, x.native, x.constants = nil, framing.Tar, nil
		}
		x.bytes, x.size = x.bytes+p.Bytes(), x.size+p.Size()
		x.maxChunk, x.maxSample, x.meanParts = max(x.maxChunk, p.MaxChunk()), max(x.maxSample, p.MaxSample()), max(x.meanParts, p.MeanParts())
	}
	if n := x.chunks[len(x.parts)]; n > math.MaxInt32 {
		return nil, fmt.Errorf("its sources have %d chunks: too many", n)
	}
	x.defaults = own.Defaults()
	if b := order.BatchSize(); b > 0 {
		x.defaults.BatchSize = b
	}
	return x, nil
}

// at returns the source of a chunk, and the chunk's number in it.
func (x *mixtureIndex) at(chunk int) (part, own int) {
	part = sort.SearchInts(x.chunks, chunk+1) - 1
	return part, chunk - x.chunks[part]
}

func (x *mixtureIndex) Generation() string            { return x.generation }
func (x *mixtureIndex) Format() string                { return "mixture" }
func (x *mixtureIndex) Defaults() chunkindex.Defaults { return x.defaults }
func (x *mixtureIndex) Samples() uint64               { return x.samples[len(x.parts)] }
func (x *mixtureIndex) Chunks() int                   { return x.chunks[len(x.parts)] }
func (x *mixtureIndex) Shards() int                   { return x.shards[len(x.parts)] }
func (x *mixtureIndex) First() []uint64               { return x.first }
func (x *mixtureIndex) Framing() format.Framing       { return x.framing }
func (x *mixtureIndex) Native() string                { return x.native }
func (x *mixtureIndex) Constants() json.RawMessage    { return x.constants }
func (x *mixtureIndex) Bytes() int64                  { return x.bytes }
func (x *mixtureIndex) MaxChunk() int64               { return x.maxChunk }
func (x *mixtureIndex) MaxSample() int64              { return x.maxSample }
func (x *mixtureIndex) MeanParts() int64              { return x.meanParts }

// Fields returns the fields that all sources have. If the sources number the classes of a field
// differently, the field has no class names.
func (x *mixtureIndex) Fields() []format.Field {
	var fields []format.Field
	for _, f := range x.parts[0].Fields() {
		everywhere := true
		for _, p := range x.parts[1:] {
			own := p.Fields()
			i := slices.IndexFunc(own, func(other format.Field) bool { return sameBytes(f, other) })
			if everywhere = i >= 0; !everywhere {
				break
			}
			if !slices.Equal(f.Classes, own[i].Classes) {
				f.Classes = nil
			}
		}
		if everywhere {
			fields = append(fields, f)
		}
	}
	return fields
}

// sameBytes reports whether two fields describe the same bytes, ignoring class names.
func sameBytes(a, b format.Field) bool {
	a.Classes, b.Classes = nil, nil
	return reflect.DeepEqual(a, b)
}

// OtherParts reports whether a source has parts that not all sources have.
func (x *mixtureIndex) OtherParts() bool {
	common := len(x.Fields())
	return slices.ContainsFunc(x.parts, func(p Index) bool { return p.OtherParts() || len(p.Fields()) != common })
}

func (x *mixtureIndex) InClassFolders() bool {
	return !slices.ContainsFunc(x.parts, func(p Index) bool { return !p.InClassFolders() })
}

// ClassOf returns the class number in the sample's own source.
func (x *mixtureIndex) ClassOf(sample uint64) (class int, ok bool) {
	part := x.partOf(sample)
	return x.parts[part].ClassOf(sample - x.samples[part])
}

// ClassSamples returns nil: a mixture draws sources at different rates.
func (*mixtureIndex) ClassSamples() []uint64 { return nil }

// ClassRuns returns nil, like ClassSamples.
func (*mixtureIndex) ClassRuns() []chunkindex.ClassRun { return nil }

// partOf returns the source of a sample.
func (x *mixtureIndex) partOf(sample uint64) int {
	return sort.Search(len(x.parts), func(i int) bool { return x.samples[i+1] > sample })
}

func (x *mixtureIndex) ChunkOf(sample uint64) int {
	part := x.partOf(sample)
	return x.chunks[part] + x.parts[part].ChunkOf(sample-x.samples[part])
}

func (x *mixtureIndex) Chunk(i int) chunkindex.Chunk {
	part, own := x.at(i)
	c := x.parts[part].Chunk(own)
	c.First += x.samples[part]
	return c
}

func (x *mixtureIndex) Extents(i int) []chunkindex.Extent {
	part, own := x.at(i)
	out := x.parts[part].Extents(own)
	for k := range out {
		out[k].Shard += x.shards[part]
	}
	return out
}

func (x *mixtureIndex) Shard(i int) chunkindex.Shard {
	part := sort.SearchInts(x.shards, i+1) - 1
	return x.parts[part].Shard(i - x.shards[part])
}

func (x *mixtureIndex) Table(ctx context.Context, chunk int) (*chunkindex.Table, error) {
	part, own := x.at(chunk)
	return x.parts[part].Table(ctx, own)
}

func (x *mixtureIndex) Names(ctx context.Context, chunk int) (*chunkindex.Names, error) {
	part, own := x.at(chunk)
	return x.parts[part].Names(ctx, own)
}

func (x *mixtureIndex) Parts(ctx context.Context, chunk int) (*chunkindex.Parts, error) {
	part, own := x.at(chunk)
	return x.parts[part].Parts(ctx, own)
}

func (x *mixtureIndex) PartNames(ctx context.Context, chunk int) ([]string, error) {
	part, own := x.at(chunk)
	return x.parts[part].PartNames(ctx, own)
}

// InPart reports whether any source is read in parts.
func (x *mixtureIndex) InPart() bool {
	return slices.ContainsFunc(x.parts, func(p Index) bool { return p.InPart() })
}

// Fetch calls Fetch of each source for its own samples.
func (x *mixtureIndex) Fetch(ctx context.Context, samples []uint64) error {
	for i, p := range x.parts {
		var own []uint64
		for _, n := range samples {
			if n >= x.samples[i] && n < x.samples[i+1] {
				own = append(own, n-x.samples[i])
			}
		}
		if err := p.Fetch(ctx, own); err != nil {
			return err
		}
	}
	return nil
}

// Lookup returns the sample with a key in the first source that has it.
func (x *mixtureIndex) Lookup(ctx context.Context, key, shard string) (uint64, bool, error) {
	for i, p := range x.parts {
		if n, ok, err := p.Lookup(ctx, key, shard); err != nil || ok {
			return x.samples[i] + n, ok, err
		}
	}
	return 0, false, nil
}

// Keys visits the keys of a chunk of its source.
func (x *mixtureIndex) Keys(ctx context.Context, chunk int, visit func(sample uint64, key []byte)) error {
	part, own := x.at(chunk)
	return x.parts[part].Keys(ctx, own, func(sample uint64, key []byte) { visit(x.samples[part]+sample, key) })
}

// Size returns the total size of the sources' index objects. ReadAt fails, because a mixture has no
// index object.
func (x *mixtureIndex) Size() int64                       { return x.size }
func (x *mixtureIndex) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
