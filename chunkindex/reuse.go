package chunkindex

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
)

// reuse takes what it can from the current generation, if it was cut by the same rules, and returns the units that are left.
func (b *builder) reuse() []int {
	known := map[string]int{}
	if b.old != nil && b.sameRules(&b.old.meta) {
		for i, s := range b.old.shards {
			known[s.Key] = i
		}
	}
	var todo []int
	for i, u := range b.units {
		at, ok := known[b.key(u.from)]
		if ok && b.unchanged(u, at) {
			s, err := newShardsOf(b.old, at, at+u.to-u.from)
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
	return m.ChunkSize == b.opt.ChunkSize && m.Format == b.format.Name() && m.Scanner == b.format.Rules() &&
		m.Overlap == b.found.Overlap && bytes.Equal(m.Framing, b.found.Framing)
}

// unchanged says whether the shards of a unit are those of the current generation from one on, in the same versions and of which others
// say the same.
func (b *builder) unchanged(u unit, at int) bool {
	if at+u.to-u.from > len(b.old.shards) {
		return false
	}
	for i := u.from; i < u.to; i++ {
		old := &b.old.shards[at+i-u.from]
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
	order := extentOrder{overlap: x.meta.Overlap, sizes: func(i int) (int64, bool) {
		if i < 0 || i >= end-first {
			return 0, false
		}
		return x.shards[first+i].Size, true
	}}
	err := s.each(func(r *chunkRecord) error {
		s.sum.add(r)
		return r.check(&order)
	})
	return s, err
}

func (s *shardsOf) totals() totals { return s.sum }

func (s *shardsOf) each(visit func(*chunkRecord) error) error {
	for i := s.from; i < s.to; i++ {
		c := s.x.Chunk(i)
		r := chunkRecord{extents: s.x.Extents(i), codec: c.Codec, skip: c.Skip, length: c.Length, crc: c.CRC32C, digest: c.Digest, samples: c.Samples}
		for j := range r.extents {
			r.extents[j].Shard -= s.first
		}
		var err error
		if r.table, err = s.x.tableBlock(i); err == nil {
			r.names, err = s.x.blobs(secNames, i)
		}
		if err == nil {
			r.parts, err = s.x.blobs(secParts, i)
		}
		if err == nil && r.codec.Described() {
			r.params, err = s.x.blobs(secDecoding, i)
		}
		if err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		r.measure()
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}
