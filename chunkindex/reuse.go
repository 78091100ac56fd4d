package chunkindex

import (
	"fmt"
	"sort"
)

// shardOf is one shard of an earlier index, from which a new one takes what has not changed.
type shardOf struct {
	x        *Index
	from, to int // chunks
	sum      totals
}

func newShardOf(x *Index, shard int) (*shardOf, error) {
	e := &x.extents
	s := &shardOf{x: x}
	s.from = sort.Search(len(e.shard), func(i int) bool { return int(e.shard[i]) >= shard })
	s.to = sort.Search(len(e.shard), func(i int) bool { return int(e.shard[i]) > shard })
	var end int64
	err := s.each(func(r *chunkRecord) error {
		s.sum.add(r)
		return r.check(&end, x.shards[shard].Size)
	})
	return s, err
}

func (s *shardOf) totals() totals { return s.sum }

func (s *shardOf) each(visit func(*chunkRecord) error) error {
	for i := s.from; i < s.to; i++ {
		c := s.x.Chunk(i)
		r := chunkRecord{extents: s.x.Extents(i), length: c.Length, crc: c.CRC32C, digest: c.Digest, samples: c.Samples}
		var err error
		if r.table, err = s.x.tableBlock(i); err == nil {
			err = r.measure()
		}
		if err == nil {
			r.names, err = s.x.blobs(secNames, i)
		}
		if err == nil {
			r.parts, err = s.x.blobs(secParts, i)
		}
		if err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		if err := visit(&r); err != nil {
			return err
		}
	}
	return nil
}
