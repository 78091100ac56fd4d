package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/format/tokens"
	"github.com/millrace-data/millrace/chunkindex/framing"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/internal/objstore"
)

// asBefore copies the window length and data type of token files from the existing index, if the
// options do not set them.
func (b *builder) asBefore(l *listing) {
	h := &b.opt.Hints
	named := slices.ContainsFunc(l.seen, func(o format.Object) bool { return tokens.Named(o.Key) })
	if b.old == nil || b.old.Format() != framing.Tokens || b.opt.Format != "" || len(h.Given()) > 0 || !named {
		return
	}
	dtype, shape := b.old.Framing().(format.Array).Item()
	h.SequenceLength, h.DType = int64(shape[0])-1, dtype
	b.report.Assumed = fmt.Sprintf("as the index that was here: --sequence-length %d --dtype '%s'", h.SequenceLength, dtype)
}

// reuse reuses unchanged units from the current generation and from the prefix's other indexes. It
// returns the remaining units.
func (b *builder) reuse(ctx context.Context, todo []int) ([]int, error) {
	b.whole = map[int]wholeSegment{}
	todo, err := b.reuseFrom(ctx, b.old, todo)
	if err != nil {
		return nil, err
	}
	names, err := chunkindex.IndexNames(ctx, b.index.Store, b.index.Prefix)
	if err != nil {
		return nil, err
	}
	b.named = b.named || b.opt.Name != ""
	for _, name := range names {
		b.named = b.named || name != ""
		if name == b.opt.Name || len(todo) == 0 {
			continue
		}
		x, err := b.other(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", chunkindex.NameText(name), err)
		}
		if x == nil {
			continue
		}
		before := len(todo)
		todo, err = b.reuseFrom(ctx, x, todo)
		if len(todo) < before && err == nil {
			b.lent = append(b.lent, x)
		} else if err := errors.Join(err, x.Close()); err != nil {
			return nil, fmt.Errorf("index %s: %w", chunkindex.NameText(name), err)
		}
	}
	return todo, nil
}

// other opens the current generation of another index of the prefix. It returns nil if the
// generation is missing, damaged, of another format version, or of other data.
func (b *builder) other(ctx context.Context, name string) (*chunkindex.Index, error) {
	p, _, err := layout.ReadPointer(ctx, b.index.Store, b.index.Prefix, name)
	if err == nil && p.Data != b.opt.Data {
		return nil, nil
	}
	var x *chunkindex.Index
	if err == nil {
		x, err = b.open(ctx, p)
	}
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, layout.ErrCorrupt) || errors.Is(err, layout.ErrVersion) || errors.Is(err, layout.ErrOldVersion) {
		return nil, nil
	}
	return x, err
}

// reuseFrom reuses unchanged units from an index that was cut by the same rules. It returns the
// remaining units, including units that are damaged in the index.
func (b *builder) reuseFrom(ctx context.Context, x *chunkindex.Index, units []int) (todo []int, err error) {
	if x == nil || !b.sameRules(x.Meta()) {
		return units, nil
	}
	found := b.sameShards(ctx, x, units)
	if x == b.old {
		units = b.keepSegments(found, units)
	}
	var runs [][2]int
	for _, i := range units {
		if s := found[i]; s != nil {
			runs = append(runs, [2]int{s.from, s.to})
		}
	}
	if err := x.CopyBlocks(ctx, runs); err != nil {
		return nil, err
	}
	for _, i := range units {
		u, s := b.units[i], found[i]
		if s == nil {
			todo = append(todo, i)
			continue
		}
		s.sum, err = check(s, x.ShardTable()[s.first:s.end], x.Meta().Overlap)
		var fetching *chunkindex.FetchError
		if errors.As(err, &fetching) || err != nil && ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			todo = append(todo, i)
			continue
		}
		b.reused(i, u, s)
	}
	return todo, nil
}

// reused records that a unit is reused from an index.
func (b *builder) reused(i int, u unit, s *shardsOf) {
	b.scans[i] = s
	b.report.ReusedShards += u.to - u.from
	size := b.bytes(u)
	b.step(chunkindex.Progress{Done: size, Kept: size, Shards: u.to - u.from, Samples: s.sum.Samples})
}

// wholeSegment is a segment of the current generation that stays as it is.
type wholeSegment struct {
	number int
	end    int // number of the unit after it
}

// keepSegments selects the segments of the current generation that stay as they are, because all
// their shards are unchanged and the rules divide the new shards at the same places. found has the
// unchanged units. keepSegments reads nothing; it returns the other units.
func (b *builder) keepSegments(found map[int]*shardsOf, units []int) (rest []int) {
	at := make(map[int]int, len(found)) // unit that begins with a shard of the current generation
	for i, s := range found {
		at[s.first] = i
	}
	kept := map[int]bool{}
	all := b.old.Segments()
	for n, s := range all {
		first, ok := at[s.First]
		end, last := first, s.First
		for u := found[end]; ok && last < s.First+s.Shards && u != nil && u.first == last; u = found[end] {
			end, last = end+1, u.end
		}
		if !ok || last != s.First+s.Shards || !b.divides(found, first, s.First) ||
			n == len(all)-1 && end < len(b.units) && !layout.EndsSegment(b.key(b.units[end-1].to-1), 0) {
			continue
		}
		b.whole[first] = wholeSegment{n, end}
		for i := first; i < end; i++ {
			kept[i] = true
			b.reused(i, b.units[i], found[i])
		}
	}
	return slices.DeleteFunc(slices.Clone(units), func(i int) bool { return kept[i] })
}

// divides reports whether a segment certainly begins with a unit: it is the first one, or the unit
// before it ends a segment. shard is its first shard in the current generation, which begins a
// segment there.
func (b *builder) divides(found map[int]*shardsOf, unit, shard int) bool {
	if unit == 0 {
		return true
	}
	before := found[unit-1]
	return before != nil && before.end == shard || layout.EndsSegment(b.key(b.units[unit-1].to-1), 0)
}

// sameShards returns the units whose shards are unchanged in the index and share no chunk with
// other shards.
func (b *builder) sameShards(ctx context.Context, x *chunkindex.Index, units []int) map[int]*shardsOf {
	known := make(map[string]int, x.Shards())
	for i, s := range x.ShardTable() {
		known[s.Key] = i
	}
	found := map[int]*shardsOf{}
	for _, i := range units {
		u := b.units[i]
		at, ok := known[b.key(u.from)]
		if !ok || !b.unchanged(x.ShardTable(), u, at) {
			continue
		}
		if s := newShardsOf(ctx, x, at, at+u.to-u.from); s.whole() {
			found[i] = s
		}
	}
	return found
}

// sameRules reports whether an index was made by the same rules as this run.
func (b *builder) sameRules(m layout.Meta) bool {
	return m.ChunkSize == b.opt.ChunkSize && m.Format == b.format.Name && m.Scanner == b.format.Rules() && m.Cutter == cutterChanges &&
		m.Overlap == b.found.Overlap && bytes.Equal(m.Framing, b.found.Framing)
}

// unchanged reports whether the index's shards that begin at at are the unit's shards. They must
// have the same keys and versions, and the same statements of other objects about them.
func (b *builder) unchanged(shards []layout.Shard, u unit, at int) bool {
	if at+u.to-u.from > len(shards) {
		return false
	}
	for i := u.from; i < u.to; i++ {
		old := &shards[at+i-u.from]
		o := b.shards[i]
		if old.Key != b.key(i) || old.Size != o.Size || old.ETag != o.ETag || old.Says != layout.SaysDigest(b.found.Shards[i].Says) {
			return false
		}
	}
	return true
}

// key returns the key of a shard relative to the prefix.
func (b *builder) key(shard int) string { return strings.TrimPrefix(b.shards[shard].Key, b.prefix) }

// shardsOf is a range of shards of an earlier index, from which a new index reuses unchanged
// chunks.
type shardsOf struct {
	x          *chunkindex.Index
	first, end int // shards [first, end)
	from, to   int // chunks [from, to)
	sum        layout.Totals
	block      func(sec, chunk int) ([]byte, error) // reads a block of the index
}

// newShardsOf returns the shards [first, end) of an index.
func newShardsOf(ctx context.Context, x *chunkindex.Index, first, end int) *shardsOf {
	s := &shardsOf{x: x, first: first, end: end, block: func(sec, chunk int) ([]byte, error) { return x.Block(ctx, sec, chunk) }}
	chunk := func(shard int) int { // returns the first chunk that extends into this shard or a later one
		return sort.Search(x.Chunks(), func(i int) bool { e := x.Extents(i); return e[len(e)-1].Shard >= shard })
	}
	s.from, s.to = chunk(first), chunk(end)
	s.sum.Samples = x.First()[s.to] - x.First()[s.from]
	return s
}

// whole reports whether all chunks of these shards contain only objects of these shards.
func (s *shardsOf) whole() bool {
	return s.to == s.x.Chunks() || s.x.Extents(s.to)[0].Shard >= s.end
}

func (s *shardsOf) totals() layout.Totals { return s.sum }

func (s *shardsOf) take(visit func(*layout.ChunkRecord) error) error { return s.each(visit) }

func (s *shardsOf) each(visit func(*layout.ChunkRecord) error) error {
	for i := s.from; i < s.to; i++ {
		c := s.x.Chunk(i)
		r := layout.ChunkRecord{Extents: s.x.Extents(i), Codec: c.Codec, Skip: c.Skip, Length: c.Length, CRC: c.CRC32C, Digest: c.Digest, Samples: c.Samples}
		if err := s.blocks(&r, i); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		for j := range r.Extents {
			r.Extents[j].Shard -= s.first
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

// blocks reads the blocks of a chunk into its record.
func (s *shardsOf) blocks(r *layout.ChunkRecord, chunk int) error {
	for i, b := range r.Blocks() {
		sec := layout.BlockSections()[i]
		if sec == layout.SecDecoding && !r.Codec.Described() {
			break
		}
		var err error
		if *b, err = s.block(sec, chunk); err != nil {
			return err
		}
	}
	if len(r.Names) == 0 {
		r.Stem = s.x.Shard(r.Extents[0].Shard).Stem
	}
	return nil
}
