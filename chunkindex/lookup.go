package chunkindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
)

// maxSameHash limits the number of different keys per hash. Random collisions never reach it in any
// real dataset. It bounds the cost of a lookup in a maliciously crafted index.
const maxSameHash = 16

// MaxShardsListed limits the shards that an AmbiguousKeyError lists. It thus also limits the name
// blocks that a lookup reads.
const MaxShardsListed = 100

// AmbiguousKeyError reports that several shards have a sample with the same key.
type AmbiguousKeyError struct {
	Shards []string // in stored order, at most MaxShardsListed
	More   bool     // more shards have the key
}

func (e *AmbiguousKeyError) Error() string {
	text := fmt.Sprintf("%d shards have a sample with this key: %q", len(e.Shards), e.Shards)
	if e.More {
		text = "more than " + text
	}
	return text
}

// Lookup returns the sample with a key: in the named shard, or in the whole dataset if shard is
// empty. ok is false if no sample has the key. If several shards have the key, Lookup returns
// *AmbiguousKeyError. It reads a few pages of the sorted hashes, and the names of the chunks whose
// hashes match.
func (x *Index) Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error) {
	from, to := uint64(0), x.totals.Samples
	if shard != "" {
		n, ok := x.shardNumber(shard)
		if !ok {
			return 0, false, nil
		}
		from, to = x.firstOf(n), x.firstOf(n+1)
	}
	found, err := x.find(ctx, key, from, to)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("index %.12s: %w", x.generation, err)
	case len(found) == 0:
		return 0, false, nil
	case len(found) == 1:
		return found[0], true, nil
	}
	e := &AmbiguousKeyError{More: len(found) > MaxShardsListed}
	for _, n := range found[:min(len(found), MaxShardsListed)] {
		e.Shards = append(e.Shards, x.shards[x.ShardOf(n)].Key)
	}
	return 0, false, e
}

// find returns the samples in [from, to) that have the key, in stored order. It may stop at one
// sample more than an error lists.
func (x *Index) find(ctx context.Context, key string, from, to uint64) ([]uint64, error) {
	var hashed []*Segment // segments with samples in the range, whose keys are sorted by hash
	for i := range x.segments {
		s := &x.segments[i]
		if first := x.first[s.chunk]; s.head.Hashed() > 0 && first < to && from < first+s.head.Samples {
			hashed = append(hashed, s)
		}
	}
	hash := layout.HashKey([]byte(key))
	found := make([][]uint64, len(hashed)+1)
	err := parallel.Each(ctx, fetchersAtOnce, len(hashed), func(ctx context.Context, _, i int) (err error) {
		found[i], err = x.withKey(ctx, hashed[i], key, hash, from, to)
		return err
	})
	found[len(hashed)] = x.numbered(key, from, to)
	all := slices.Concat(found...)
	slices.Sort(all)
	return all, err
}

// withKey returns the samples in [from, to) of a segment that have the key with this hash. It stops
// at one sample more than an error lists.
func (x *Index) withKey(ctx context.Context, s *Segment, key string, hash, from, to uint64) (found []uint64, err error) {
	base := x.first[s.chunk]
	first := layout.HashRecord{Hash: hash, Sample: max(from, base) - base}
	pages := int(layout.HashPages(s.head.Hashed()))
	page, err := s.findPage(ctx, first, pages)
	if err != nil {
		return nil, err
	}
	for others := 0; page < pages; page++ {
		recs, err := s.page(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, r := range recs[sort.Search(len(recs), func(i int) bool { return !recs[i].Less(first) }):] {
			if r.Hash != first.Hash || base+r.Sample >= to || len(found) > MaxShardsListed {
				return found, nil
			}
			got, err := x.Key(ctx, base+r.Sample)
			if err != nil {
				return nil, err
			}
			if got == key {
				found = append(found, base+r.Sample)
			} else if others++; others > maxSameHash {
				return nil, fmt.Errorf("hash page %d: %w", page, layout.ErrMalformed)
			}
		}
	}
	return found, nil
}

// ShardOf returns the number of the shard that holds a sample.
func (x *Index) ShardOf(sample uint64) int {
	chunk := x.ChunkOf(sample)
	at := uint64(chunk)
	if e := &x.extents; e.first != nil {
		// A chunk with several extents has one extent per sample.
		at = min(e.first[chunk]+sample-x.first[chunk], e.first[chunk+1]-1)
	}
	return int(x.extents.shard[at])
}

// ShardKey returns the key of the shard that holds a sample.
func (x *Index) ShardKey(sample uint64) string { return x.shards[x.ShardOf(sample)].Key }

// shardNumber returns the number of the shard with a key.
func (x *Index) shardNumber(key string) (n int, ok bool) {
	return sort.Find(len(x.shards), func(i int) int { return strings.Compare(key, x.shards[i].Key) })
}

// firstOf returns the number of a shard's first sample. For an empty shard, it returns the number
// of the next sample.
func (x *Index) firstOf(shard int) uint64 {
	if x.extents.first == nil {
		return x.first[sort.Search(len(x.lengths), func(i int) bool { return x.shardOf(i) >= shard })]
	}
	return uint64(sort.Search(int(x.totals.Samples), func(s int) bool { return x.ShardOf(uint64(s)) >= shard }))
}

// shardOf returns the shard of a chunk's first sample.
func (x *Index) shardOf(chunk int) int {
	if e := &x.extents; e.first != nil {
		return int(e.shard[e.first[chunk]])
	}
	return int(x.extents.shard[chunk])
}

// numbered returns the samples in [from, to) whose derived name equals the key, in segments without
// hashes. It stops at one sample more than an error lists.
func (x *Index) numbered(key string, from, to uint64) (found []uint64) {
	slash := strings.LastIndexByte(key, '/')
	if slash <= 0 {
		return nil
	}
	stem := key[:slash]
	n, err := strconv.ParseUint(key[slash+1:], 10, 64)
	if err != nil || format.Numbered(stem, n) != key {
		return nil
	}
	begin, _ := x.shardNumber(stem)
	for i := begin; i < len(x.shards) && strings.HasPrefix(x.shards[i].Key, stem) && len(found) <= MaxShardsListed; i++ {
		if x.shards[i].Stem != len(stem) || x.segmentOfShard(i).head.Hashed() > 0 {
			continue
		}
		first := x.firstOf(i)
		if at := first + n; n < x.firstOf(i+1)-first && at >= from && at < to {
			found = append(found, at)
		}
	}
	return found
}

// findPage returns the first page whose last record is not less than sought. Hashes are uniformly
// distributed, so the hash itself predicts the page, and the search widens from that guess.
func (s *Segment) findPage(ctx context.Context, sought layout.HashRecord, pages int) (int, error) {
	lo, hi := 0, pages
	guess := int(float64(sought.Hash) / (1 << 64) * float64(pages))
	step := 1
	for lo < hi {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		guess = min(max(guess, lo), hi-1)
		recs, err := s.page(ctx, guess)
		if err != nil {
			return 0, err
		}
		switch {
		case recs[len(recs)-1].Less(sought):
			lo = guess + 1
			guess += step
		case !recs[0].Less(sought):
			hi = guess
			guess -= step
		default:
			return guess, nil
		}
		if step *= 2; step > 1<<10 {
			guess = (lo + hi) / 2
		}
	}
	return lo, nil
}

// page reads and verifies one page of the hash section.
func (s *Segment) page(ctx context.Context, n int) ([]layout.HashRecord, error) {
	b := make([]byte, layout.PageSize)
	if err := s.pages.read(ctx, s.head.Sections[layout.SecHash].Offset+int64(n)*layout.PageSize, b); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:layout.PageCRC], layout.Castagnoli()) != binary.LittleEndian.Uint32(b[layout.PageCRC:]) {
		return nil, fmt.Errorf("hash page %d: checksum is wrong", n)
	}
	count := uint64(binary.LittleEndian.Uint32(b[16*layout.PageRecords:]))
	if want := min(layout.PageRecords, s.head.Samples-uint64(n)*layout.PageRecords); count != want {
		return nil, fmt.Errorf("hash page %d: %w", n, layout.ErrMalformed)
	}
	recs := make([]layout.HashRecord, count)
	for i := range recs {
		recs[i] = layout.HashRecord{Hash: binary.LittleEndian.Uint64(b[16*i:]), Sample: binary.LittleEndian.Uint64(b[16*i+8:])}
		if recs[i].Sample >= s.head.Samples || (i > 0 && !recs[i-1].Less(recs[i])) {
			return nil, fmt.Errorf("hash page %d: %w", n, layout.ErrMalformed)
		}
	}
	return recs, nil
}
