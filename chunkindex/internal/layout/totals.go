package layout

// Totals are sums over the chunks of a shard, a segment or an index. They determine the layout of a
// segment.
type Totals struct {
	Shards                   uint64 // 0 for the chunks of a shard
	Chunks, Extents, Samples uint64
	Bytes, Longest           int64
	PartCount                uint64
	listed                   uint64 // samples whose names are stored instead of derived

	tables, names, parts, params uint64 // bytes of the blocks
}

// Add adds a chunk.
func (t *Totals) Add(r *ChunkRecord) {
	o := Totals{
		Chunks: 1, Extents: uint64(len(r.Extents)), Samples: uint64(r.Samples), Bytes: r.Bytes, Longest: r.Longest, PartCount: r.Count,
		tables: uint64(len(r.Table)), names: uint64(len(r.Names)), parts: uint64(len(r.Parts)), params: uint64(len(r.Params)),
	}
	if o.names > 0 {
		o.listed = o.Samples
	}
	t.Join(o)
}

// Join adds the totals of another scan.
func (t *Totals) Join(o Totals) {
	t.Shards += o.Shards
	t.Chunks += o.Chunks
	t.Extents += o.Extents
	t.Samples += o.Samples
	t.Bytes += o.Bytes
	t.Longest = max(t.Longest, o.Longest)
	t.PartCount += o.PartCount
	t.listed += o.listed
	t.tables += o.tables
	t.names += o.names
	t.parts += o.parts
	t.params += o.params
}

// Blocks returns the length of the blocks.
func (t *Totals) Blocks() uint64 { return t.tables + t.names + t.parts + t.params }
