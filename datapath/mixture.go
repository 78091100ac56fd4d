package datapath

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/shuffle"
)

// Part is one source of a Mixture. Name identifies it in errors.
type Part struct {
	Name   string
	Source *Source
}

// Mixture reads batches with a part from each source. Its chunk and shard numbers continue from one
// source to the next. It is safe for concurrent use.
type Mixture struct {
	paths  []*Path
	parts  []Part
	chunks []int // number of chunks before each part, then the total
	shards []int // number of shards before each part
}

// Mix makes a mixture. paths are all paths of the process, in the order in which their memory is
// reserved.
func Mix(paths []*Path, parts []Part) *Mixture {
	m := &Mixture{paths: paths, parts: parts, chunks: []int{0}, shards: []int{0}}
	for i, p := range parts {
		m.chunks = append(m.chunks, m.chunks[i]+p.Source.index.Chunks())
		m.shards = append(m.shards, m.shards[i]+p.Source.index.Shards())
	}
	return m
}

// Read reads all ranges of one batch. at.Parts is the position of the reader in each source. Errors
// are those of Source.Read.
func (m *Mixture) Read(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for i, p := range m.parts {
		if !p.Source.enter() {
			leaveAll(m.parts[:i])
			return nil, fmt.Errorf("source %s: %w", p.Name, ErrClosed)
		}
	}
	body, err := m.readBatch(ctx, at, chunks)
	return leaveAfter(func() { leaveAll(m.parts) }, body, err)
}

// leaveAll ends one use of the source of each part.
func leaveAll(parts []Part) {
	for _, p := range parts {
		p.Source.leave()
	}
}

func (m *Mixture) readBatch(ctx context.Context, at shuffle.Cursor, chunks []batch.ChunkRanges) (*batch.Body, error) {
	parts, err := m.divide(at, chunks)
	if err != nil {
		return nil, err
	}
	var ordered []*part
	for _, path := range m.paths {
		var bytes int64
		for _, p := range parts {
			if p.source.path == path {
				ordered, bytes = append(ordered, p), bytes+p.bytes
			}
		}
		if err := path.couldHold(bytes); err != nil {
			return nil, err
		}
	}
	return (&assembly{parts: ordered}).readPlanned(ctx)
}

// divide splits the chunks of a batch by source.
func (m *Mixture) divide(at shuffle.Cursor, chunks []batch.ChunkRanges) (parts []*part, err error) {
	wanted := make([][]batch.ChunkRanges, len(m.parts))
	for _, c := range chunks {
		i := sort.SearchInts(m.chunks, c.Chunk+1) - 1
		if i < 0 || i >= len(m.parts) {
			return nil, fmt.Errorf("read chunk %d of %d: no such chunk", c.Chunk, m.chunks[len(m.parts)])
		}
		wanted[i] = append(wanted[i], batch.ChunkRanges{Chunk: c.Chunk - m.chunks[i], Ranges: c.Ranges})
	}
	for i, list := range wanted {
		if list == nil {
			continue
		}
		p := &part{source: m.parts[i].Source, name: func(err error) error { return m.named(i, err) }}
		if i < len(at.Parts) {
			p.at = at.Parts[i]
		}
		if p.request, err = p.source.newBatch(list); err != nil {
			return nil, p.named(err)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// named adds the name of the source to an error, and converts its shard number and key to those of
// the mixture.
func (m *Mixture) named(i int, err error) error {
	if e, ok := errors.AsType[*chunkindex.RangeError](err); ok {
		moved := *e
		moved.Shard += m.shards[i]
		moved.Key = m.parts[i].Name + "/" + e.Key
		err = &moved
	}
	return fmt.Errorf("source %s: %w", m.parts[i].Name, err)
}

// Warm returns an error: callers warm each source of a mixture separately.
func (m *Mixture) Warm(context.Context, shuffle.Cursor) (batch.Warmed, error) {
	return batch.Warmed{}, errors.New("a mixture cannot be warmed: warm its sources")
}
