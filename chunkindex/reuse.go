package chunkindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// reuse takes what it can from the current generation, then from those of the other indexes of the prefix, and returns the units
// that are left.
func (b *builder) reuse(ctx context.Context) ([]int, error) {
	todo := make([]int, len(b.units))
	for i := range todo {
		todo[i] = i
	}
	todo = b.reuseFrom(b.old, todo)
	names, err := IndexNames(ctx, b.index.Store, b.index.Prefix)
	if err != nil {
		return nil, err
	}
	b.named = b.opt.Name != ""
	for _, name := range names {
		b.named = b.named || name != ""
		if name == b.opt.Name || len(todo) == 0 {
			continue
		}
		x, err := b.other(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", NameText(name), err)
		}
		if x == nil {
			continue
		}
		before := len(todo)
		if todo = b.reuseFrom(x, todo); len(todo) < before {
			b.lent = append(b.lent, x)
		} else if err := x.Close(); err != nil {
			return nil, err
		}
	}
	return todo, nil
}

// other opens the current generation of another index of the prefix, if it is one of the same data. One that is damaged, or
// that a newer program wrote, is passed over: nil.
func (b *builder) other(ctx context.Context, name string) (*Index, error) {
	p, _, err := readPointer(ctx, b.index.Store, b.index.Prefix, name)
	if err == nil && p.Data != b.opt.Data {
		return nil, nil
	}
	var x *Index
	if err == nil {
		x, err = b.download(ctx, p.Generation)
	}
	if err == nil {
		if err = x.bind(ctx, b.index.Store, bindingObject(b.index.Prefix, p.Generation, p.Binding)); err != nil {
			x.Close()
		}
	}
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// reuseFrom takes what it can of some units from an index, if that was cut by the same rules, and returns the units that are left.
func (b *builder) reuseFrom(x *Index, units []int) (todo []int) {
	if x == nil || !b.sameRules(&x.meta) {
		return units
	}
	known := make(map[string]int, len(x.shards))
	for i, s := range x.shards {
		known[s.Key] = i
	}
	for _, i := range units {
		u := b.units[i]
		at, ok := known[b.key(u.from)]
		if ok && b.unchanged(x, u, at) {
			s, err := newShardsOf(x, at, at+u.to-u.from)
			if err == nil {
				b.scans[i] = s
				b.report.ReusedShards += u.to - u.from
				size := b.bytes(u)
				b.step(Progress{Done: size, Kept: size, Shards: u.to - u.from, Samples: s.totals().samples})
				continue
			}
		}
		todo = append(todo, i)
	}
	return todo
}

// sameRules says whether an index was cut as this run cuts.
func (b *builder) sameRules(m *meta) bool {
	return m.ChunkSize == b.opt.ChunkSize && m.Format == b.format.Name && m.Scanner == b.format.Rules() && m.Cutter == cutterChanges &&
		m.Overlap == b.found.Overlap && bytes.Equal(m.Framing, b.found.Framing)
}

// unchanged says whether the shards of a unit are those of an index from one on, in the same versions and of which others
// say the same.
func (b *builder) unchanged(x *Index, u unit, at int) bool {
	if at+u.to-u.from > len(x.shards) {
		return false
	}
	for i := u.from; i < u.to; i++ {
		old := &x.shards[at+i-u.from]
		o := b.shards[i]
		if old.Key != b.key(i) || old.Size != o.Size || old.ETag != o.ETag || old.says != saysDigest(b.found.Shards[i].Says) {
			return false
		}
	}
	return true
}

// key of a shard, relative to the prefix.
func (b *builder) key(shard int) string { return strings.TrimPrefix(b.shards[shard].Key, b.prefix) }

// shardsOf are shards of an earlier index, from which a new one takes what has not changed.
type shardsOf struct {
	x        *Index
	first    int // shard
	from, to int // chunks
	sum      totals
}

// newShardsOf takes the shards from first to before end. A chunk that they share with another shard is an error: they were
// not cut by themselves.
func newShardsOf(x *Index, first, end int) (*shardsOf, error) {
	s := &shardsOf{x: x, first: first}
	chunk := func(shard int) int { // the first one that reaches to this shard or beyond
		return sort.Search(x.Chunks(), func(i int) bool { e := x.Extents(i); return e[len(e)-1].Shard >= shard })
	}
	s.from, s.to = chunk(first), chunk(end)
	if s.to < x.Chunks() && x.Extents(s.to)[0].Shard < end {
		return nil, fmt.Errorf("chunk %d holds objects of other runs too", s.to)
	}
	order := extentOrder{overlap: x.meta.Overlap, shards: shardsNumbered(x.shards[first:end])}
	err := s.each(func(r *chunkRecord) error {
		if err := r.check(&order); err != nil {
			return err
		}
		s.sum.add(r)
		return nil
	})
	return s, err
}

func (s *shardsOf) totals() totals { return s.sum }

func (s *shardsOf) take(visit func(*chunkRecord) error) error { return s.each(visit) }

func (s *shardsOf) each(visit func(*chunkRecord) error) error {
	for i := s.from; i < s.to; i++ {
		c := s.x.Chunk(i)
		r := chunkRecord{extents: s.x.Extents(i), codec: c.Codec, skip: c.Skip, length: c.Length, crc: c.CRC32C, digest: c.Digest, samples: c.Samples}
		if err := s.blocks(&r, i); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		for j := range r.extents {
			r.extents[j].Shard -= s.first
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}

// blocks gives the record of a chunk its blocks, which those of an index of version 1 become.
func (s *shardsOf) blocks(r *chunkRecord, chunk int) error {
	ctx := context.Background()
	plain := plainBlocks{}
	to := map[int]*[]byte{secTables: &r.table, secNames: &r.names, secParts: &r.parts}
	if s.x.head.version == 1 {
		to = map[int]*[]byte{secTables: &plain.table, secNames: &plain.names, secParts: &plain.parts}
	}
	if r.codec.Described() {
		to[secDecoding] = &r.params
	}
	for sec, b := range to {
		var err error
		if *b, err = s.x.block(ctx, sec, chunk); err != nil {
			return err
		}
	}
	shard := r.extents[0].Shard
	if s.x.head.version == 1 {
		return r.encode(&plain, s.x.meta.Overlap, s.x.shards[shard].Key, s.x.first[chunk]-s.x.firstOf(shard))
	}
	if len(r.names) == 0 {
		r.stem = s.x.shards[shard].stem
	}
	return nil
}
