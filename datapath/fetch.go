package datapath

import (
	"context"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/tracing"
)

// fetch is a load of the chunks that one caller needs together.
type fetch struct {
	load         // part is set by group
	first  bool  // the fetch is for a reader's first batch: nothing was prefetched
	chunks []int // chunks to load, in ascending order
}

// describe returns the description of a chunk for the cache.
func (s *Source) describe(chunk int) chunkcache.Chunk[key] {
	desc := s.index.Chunk(chunk)
	return chunkcache.Chunk[key]{Key: s.key(chunk), Size: desc.Length, Extra: extra(desc)}
}

func (f *fetch) request() chunkcache.Request[key] {
	return chunkcache.Request[key]{Table: f.source.chunks, Chunks: f.chunks, Ahead: f.held != nil, Due: f.due(), Group: f.group, Load: f.bring}
}

// due returns when the last of the missing chunks is needed. To make room for them, the cache may
// evict a chunk that is due later; for a prefetch, only a chunk that is due much later.
func (f *fetch) due() (due int64) {
	for _, c := range f.chunks {
		if !f.source.chunks.Contains(c) {
			due = max(due, f.source.due(c, due))
		}
	}
	if f.held != nil {
		return chunkcache.Later(due)
	}
	return due
}

// group groups the missing chunks by store read, so that one read loads each group. A chunk on
// disk, or one that a former owner may send, is a group of its own.
func (f *fetch) group(missing []int) [][]int {
	stored := make([]int, 0, len(missing)) // chunks to read from the store
	var groups [][]int
	var total int64
	for _, c := range missing {
		if f.source.path.disk.answers(f.source, c) || f.source.former(c) != "" {
			groups = append(groups, []int{c})
			continue
		}
		stored = append(stored, c)
		total += f.source.index.Chunk(c).Stored
	}
	f.part = f.source.path.cfg.PartSize
	if f.first {
		f.part = f.source.path.firstPart(total)
	}
	return append(groups, f.source.group(stored, f.part)...)
}

// firstPart returns the maximum length of one store read while a first batch waits for whole chunks
// of total bytes.
func (p *Path) firstPart(total int64) int64 {
	return policy.FirstPart(total, p.cfg.PartSize, p.gate.places())
}

// group splits a list of chunks, in ascending order, into groups that are adjacent in one shard.
// One store read of at most part bytes loads each group.
func (s *Source) group(chunks []int, part int64) [][]int {
	return policy.Group(chunks, s.placeOf, part)
}

// placeOf returns the location of a chunk in the store.
func (s *Source) placeOf(chunk int) policy.Place {
	e := s.index.Extents(chunk)[0]
	return policy.Place{Shard: e.Shard, Offset: e.Offset, Length: e.Length, Alone: s.index.ExtentCount(chunk) > 1}
}

// bring loads one group.
func (f *fetch) bring(ctx context.Context, wholes []*chunkcache.Fill[key]) (err error) {
	ctx, span := f.trace(ctx, wholes)
	defer func() { span.Ended(err) }()
	fills := make([]*fill, len(wholes))
	for i, whole := range wholes {
		fills[i] = &fill{ChunkRanges: batch.ChunkRanges{Chunk: whole.Chunk}, whole: whole}
	}
	l := f.load
	return l.source.path.tiers.Load(ctx, &l, fills)
}

// trace begins the span of a load, and passes it to the requests that wait for the load. The load
// is a trace of its own, since requests of many traces may wait for it. The trace of a load that a
// request began is linked to that request.
func (f *fetch) trace(ctx context.Context, wholes []*chunkcache.Fill[key]) (context.Context, tracing.Span) {
	var span tracing.Span
	if f.held == nil {
		ctx, span = tracing.Apart(ctx, "chunk load")
	} else {
		ctx, span = f.source.path.cfg.Trace.Root(ctx, "chunk load ahead")
	}
	if !span.Recorded() {
		return ctx, span
	}
	var bytes int64
	for _, whole := range wholes {
		bytes += int64(len(whole.Bytes()))
	}
	span.Text("millrace.generation", f.source.index.Generation())
	span.Number("millrace.chunk", int64(wholes[0].Chunk))
	span.Number("millrace.chunks", int64(len(wholes)))
	span.Number("millrace.bytes", bytes)
	wholes[0].Say(span)
	return ctx, span
}
