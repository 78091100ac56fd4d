package chunkindex

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
	"strconv"
	"strings"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
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
	from, to := uint64(0), x.head.Samples
	if shard != "" {
		from, to = x.samplesOf(shard)
	}
	var found []uint64
	if x.head.Hashed() > 0 {
		found, err = x.withKey(ctx, key, from, to)
	} else {
		found = x.numbered(key, from, to)
	}
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

// withKey returns the samples in [from, to) that have the key. It stops at one sample more than an
// error lists.
func (x *Index) withKey(ctx context.Context, key string, from, to uint64) (found []uint64, err error) {
	first := layout.HashRecord{Hash: layout.HashKey([]byte(key)), Sample: from}
	pages := int(layout.HashPages(x.head.Hashed()))
	page, err := x.findPage(ctx, first, pages)
	if err != nil {
		return nil, err
	}
	for others := 0; page < pages; page++ {
		recs, err := x.page(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, r := range recs[sort.Search(len(recs), func(i int) bool { return !recs[i].Less(first) }):] {
			if r.Hash != first.Hash || r.Sample >= to || len(found) > MaxShardsListed {
				return found, nil
			}
			got, err := x.Key(ctx, r.Sample)
			if err != nil {
				return nil, err
			}
			if got == key {
				found = append(found, r.Sample)
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

// samplesOf returns the sample range [from, to) of a shard.
func (x *Index) samplesOf(shard string) (from, to uint64) {
	n, ok := sort.Find(len(x.shards), func(i int) int { return strings.Compare(shard, x.shards[i].Key) })
	if !ok {
		return 0, 0
	}
	return x.firstOf(n), x.firstOf(n + 1)
}

// firstOf returns the number of a shard's first sample. For an empty shard, it returns the number
// of the next sample.
func (x *Index) firstOf(shard int) uint64 {
	if x.extents.first == nil {
		return x.first[sort.Search(len(x.lengths), func(i int) bool { return x.shardOf(i) >= shard })]
	}
	return uint64(sort.Search(int(x.head.Samples), func(s int) bool { return x.ShardOf(uint64(s)) >= shard }))
}

// shardOf returns the shard of a chunk's first sample.
func (x *Index) shardOf(chunk int) int {
	if e := &x.extents; e.first != nil {
		return int(e.shard[e.first[chunk]])
	}
	return int(x.extents.shard[chunk])
}

// numbered returns the samples in [from, to) whose derived name equals the key. It stops at one
// sample more than an error lists.
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
	begin, _ := sort.Find(len(x.shards), func(i int) int { return strings.Compare(stem, x.shards[i].Key) })
	for i := begin; i < len(x.shards) && strings.HasPrefix(x.shards[i].Key, stem) && len(found) <= MaxShardsListed; i++ {
		if x.shards[i].Stem != len(stem) {
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
func (x *Index) findPage(ctx context.Context, sought layout.HashRecord, pages int) (int, error) {
	lo, hi := 0, pages
	guess := int(float64(sought.Hash) / (1 << 64) * float64(pages))
	step := 1
	for lo < hi {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		guess = min(max(guess, lo), hi-1)
		recs, err := x.page(ctx, guess)
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
func (x *Index) page(ctx context.Context, n int) ([]layout.HashRecord, error) {
	b := make([]byte, layout.PageSize)
	if err := x.pages.read(ctx, x.head.Sections[layout.SecHash].Offset+int64(n)*layout.PageSize, b); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:layout.PageCRC], layout.Castagnoli()) != binary.LittleEndian.Uint32(b[layout.PageCRC:]) {
		return nil, fmt.Errorf("hash page %d: checksum is wrong", n)
	}
	count := uint64(binary.LittleEndian.Uint32(b[16*layout.PageRecords:]))
	if want := min(layout.PageRecords, x.head.Samples-uint64(n)*layout.PageRecords); count != want {
		return nil, fmt.Errorf("hash page %d: %w", n, layout.ErrMalformed)
	}
	recs := make([]layout.HashRecord, count)
	for i := range recs {
		recs[i] = layout.HashRecord{Hash: binary.LittleEndian.Uint64(b[16*i:]), Sample: binary.LittleEndian.Uint64(b[16*i+8:])}
		if recs[i].Sample >= x.head.Samples || (i > 0 && !recs[i-1].Less(recs[i])) {
			return nil, fmt.Errorf("hash page %d: %w", n, layout.ErrMalformed)
		}
	}
	return recs, nil
}

// duplicateKeyError reports two samples of one shard with the same key.
type duplicateKeyError struct{ shard, key string }

func (e *duplicateKeyError) Error() string {
	return fmt.Sprintf("two samples in shard %s have the key %q: keys must be unique in a shard, and members with the same key that are not adjacent count as two samples: rewrite the shard with its members sorted by name, as "+
		"tar --sort=name does, or LC_ALL=C sort before zip -@", e.shard, e.key)
}

// RepeatedKeys counts the key hashes that occur in several shards, and returns one such key. It
// returns a *duplicateKeyError for two samples of one shard with the same key. Samples with equal
// hashes are in stored order, so those of one shard are adjacent. Only their names are read and
// compared.
func (x *Index) RepeatedKeys(ctx context.Context) (n uint64, example string, err error) {
	var same []layout.HashRecord // preceding records with the same hash in the same shard
	repeated := false            // an earlier shard has the same hash
	if x.head.Hashed() == 0 {
		n, example = x.repeatsNumbered()
		return n, example, nil
	}
	for page := range int(layout.HashPages(x.head.Samples)) {
		if err := ctx.Err(); err != nil {
			return n, example, err
		}
		recs, err := x.page(ctx, page)
		if err != nil {
			return n, example, err
		}
		for _, r := range recs {
			switch {
			case len(same) == 0 || same[0].Hash != r.Hash:
				same, repeated = append(same[:0], r), false
				continue
			case x.ShardOf(same[0].Sample) == x.ShardOf(r.Sample):
				if err := x.differ(ctx, same, r); err != nil {
					return n, example, err
				}
				same = append(same, r)
				continue
			}
			if !repeated {
				if n++; n == 1 {
					if example, err = x.Key(ctx, r.Sample); err != nil {
						return n, example, err
					}
				}
			}
			same, repeated = append(same[:0], r), true
		}
	}
	return n, example, nil
}

// differ returns a *duplicateKeyError if the sample's key equals the key of a sample in same. All
// these samples are in one shard.
func (x *Index) differ(ctx context.Context, same []layout.HashRecord, r layout.HashRecord) error {
	if len(same) >= maxSameHash {
		return fmt.Errorf("%d keys of one shard have one hash: %w", len(same)+1, layout.ErrMalformed)
	}
	key, err := x.Key(ctx, r.Sample)
	if err != nil {
		return err
	}
	for _, o := range same {
		other, err := x.Key(ctx, o.Sample)
		if err != nil {
			return err
		}
		if other == key {
			return &duplicateKeyError{x.shards[x.ShardOf(r.Sample)].Key, key}
		}
	}
	return nil
}

// repeatsNumbered implements RepeatedKeys for derived names: shards with the same stem share their
// first keys.
func (x *Index) repeatsNumbered() (n uint64, example string) {
	counts := map[string][2]uint64{} // the two largest sample counts per stem
	for i, s := range x.shards {
		count := x.firstOf(i+1) - x.firstOf(i)
		if count == 0 {
			continue
		}
		most := counts[s.Key[:s.Stem]]
		switch {
		case count > most[0]:
			most = [2]uint64{count, most[0]}
		case count > most[1]:
			most[1] = count
		}
		counts[s.Key[:s.Stem]] = most
		if most[1] > 0 && example == "" {
			example = format.Numbered(s.Key[:s.Stem], 0)
		}
	}
	for _, most := range counts {
		n += most[1]
	}
	return n, example
}
