package datapath

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
)

// fetch brings chunks that one caller wants together.
type fetch struct {
	source *Source
	held   *gate // no request waits for the chunks: the caller holds a place of this gate; nil: a request waits
	toDisk bool  // the caller writes the chunks to disk
	first  bool  // the reader waits for its first batch: nothing was fetched ahead
	part   int64 // bytes of one store read at most, set by group

	wants   []chunkcache.Want[key]
	numbers []int // in the index, ascending
}

// want sets the chunks to bring.
func (f *fetch) want(chunks []int) {
	f.numbers = chunks
	f.wants = make([]chunkcache.Want[key], len(chunks))
	for n, c := range chunks {
		desc := f.source.index.Chunk(c)
		f.wants[n] = chunkcache.Want[key]{Chunk: c, Key: f.source.key(c), Size: desc.Length, Beside: beside(desc)}
	}
}

func (f *fetch) request() chunkcache.Request[key] {
	return chunkcache.Request[key]{Table: f.source.chunks, Wants: f.wants, Ahead: f.held != nil, Due: f.due(), Group: f.group, Load: f.load}
}

// due says when the last of the wants is needed that are missing: a chunk goes for them if it is due later,
// or for a read ahead of need if it is due much later.
func (f *fetch) due() (due int64) {
	for _, c := range f.numbers {
		if !f.source.chunks.Contains(c) {
			due = max(due, f.source.due(c, due))
		}
	}
	if f.held != nil {
		return later(due)
	}
	return due
}

// group lists which of the missing wants one store read brings, and by themselves those that are on disk.
func (f *fetch) group(missing []int) [][]int {
	chunks := make([]int, 0, len(missing))
	stored := make([]int, 0, len(missing)) // those of missing that the store has to bring
	var groups [][]int
	var total int64
	for _, i := range missing {
		if f.source.path.disk.answers(f.source, f.numbers[i]) || f.former(f.numbers[i]) != "" {
			groups = append(groups, []int{i})
			continue
		}
		chunks, stored = append(chunks, f.numbers[i]), append(stored, i)
		total += f.source.index.Chunk(f.numbers[i]).Stored
	}
	f.part = f.source.path.cfg.PartSize
	if f.first {
		f.part = f.source.path.firstPart(total)
	}
	for _, g := range f.source.group(chunks, f.part) {
		for n := range g {
			g[n] = stored[g[n]]
		}
		groups = append(groups, g)
	}
	return groups
}

// firstPart is the length of one store read while a first batch waits for whole chunks of total bytes: one for each place of the gate that
// early leaves it, since the line is idle. A read costs a request, so it is an eighth of PartSize at least.
func (p *Path) firstPart(total int64) int64 {
	places := p.gate.places()
	streams := int64(max(places-early(places), 1))
	return min(p.cfg.PartSize, max(total/streams, p.cfg.PartSize/8, 1))
}

// group joins chunks that lie side by side in one shard into lists that one store read of at most part bytes
// brings. The chunks are in ascending order.
func (s *Source) group(chunks []int, part int64) [][]int {
	var groups [][]int
	var end, size int64
	shard := -1
	for i, c := range chunks {
		if s.index.ExtentCount(c) > 1 {
			groups, shard = append(groups, []int{i}), -1
			continue
		}
		e := s.index.Extents(c)[0]
		if e.Shard == shard && e.Offset == end && size+e.Length <= part {
			groups[len(groups)-1] = append(groups[len(groups)-1], i)
			size += e.Length
		} else {
			groups, size = append(groups, []int{i}), e.Length
		}
		shard, end = e.Shard, e.Offset+e.Length
	}
	return groups
}

// load brings one group.
func (f *fetch) load(ctx context.Context, wholes []*chunkcache.Fill[key]) error {
	fills := make([]*fill, len(wholes))
	for i, whole := range wholes {
		chunk := f.numbers[whole.Index]
		fills[i] = &fill{ChunkRanges: chunkindex.ChunkRanges{Chunk: chunk}, whole: whole}
	}
	return f.source.path.tiers.next.Load(ctx, &load{source: f.source, fetch: f}, fills)
}
