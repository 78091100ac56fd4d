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

// maxSameHash is how many different keys may share a hash: far more than chance gives in any dataset, and few enough
// that an index made for it costs a look-up no more than that.
const maxSameHash = 16

// MaxShardsListed is how many shards an AmbiguousKeyError names: a page of text, and as many reads of names.
const MaxShardsListed = 100

// AmbiguousKeyError says that several shards have a sample of one key.
type AmbiguousKeyError struct {
	Shards []string // in stored order, MaxShardsListed of them at most
	More   bool     // further shards have the key too
}

func (e *AmbiguousKeyError) Error() string {
	text := fmt.Sprintf("%d shards have a sample of this key: %q", len(e.Shards), e.Shards)
	if e.More {
		text = "more than " + text
	}
	return text
}

// Lookup returns the sample that has a key: the one in the shard that is named, or, where shard is empty, the only one in the
// dataset. ok is false where there is none. A key of several shards without a shard is an *AmbiguousKeyError. A look-up
// reads a few pages of the sorted hashes in the local file, and the names of the chunks whose samples it compares.
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

// withKey returns the samples from one number to before another that have a key, one more than are listed at most.
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
		// A chunk of several extents has one for each of its samples.
		at = min(e.first[chunk]+sample-x.first[chunk], e.first[chunk+1]-1)
	}
	return int(x.extents.shard[at])
}

// ShardKey returns the key of the shard that holds a sample.
func (x *Index) ShardKey(sample uint64) string { return x.shards[x.ShardOf(sample)].Key }

// samplesOf returns the number of a shard's first sample and that of the first sample behind it.
func (x *Index) samplesOf(shard string) (from, to uint64) {
	n, ok := sort.Find(len(x.shards), func(i int) int { return strings.Compare(shard, x.shards[i].Key) })
	if !ok {
		return 0, 0
	}
	return x.firstOf(n), x.firstOf(n + 1)
}

// firstOf returns the number of the first sample of a shard, or of the first one behind it.
func (x *Index) firstOf(shard int) uint64 {
	if x.extents.first == nil {
		return x.first[sort.Search(len(x.lengths), func(i int) bool { return x.shardOf(i) >= shard })]
	}
	return uint64(sort.Search(int(x.head.Samples), func(s int) bool { return x.ShardOf(uint64(s)) >= shard }))
}

// shardOf returns the number of the shard that holds the first sample of a chunk.
func (x *Index) shardOf(chunk int) int {
	if e := &x.extents; e.first != nil {
		return int(e.shard[e.first[chunk]])
	}
	return int(x.extents.shard[chunk])
}

// numbered returns the samples from one number to before another that a rule gives a key, one more than are listed at most.
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

// findPage returns the first page whose last record is not before the one that is sought. Hashes are
// uniform, so a guess from the hash itself is nearly right, and the search starts around it.
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

// page reads one page of the hash section and checks it.
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

// twiceError says that two samples of one shard have the same key.
type twiceError struct{ shard, key string }

func (e *twiceError) Error() string {
	return fmt.Sprintf("two samples in shard %s have the key %q: keys must be unique in a shard, and members of one key that are not adjacent are two samples: write the shard anew with its members in the order of their names, as "+
		"tar --sort=name does, or LC_ALL=C sort before zip -@", e.shard, e.key)
}

// RepeatedKeys counts the keys that several shards have, by their hashes, and names one. Two samples of one shard with one key are a *twiceError. Samples of one
// hash are in stored order, so those of one shard are neighbours: names are read of these alone.
func (x *Index) RepeatedKeys(ctx context.Context) (n uint64, example string, err error) {
	var same []layout.HashRecord // records before this one, of one hash and one shard
	repeated := false            // a shard before this one has the hash too
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

// differ returns a *twiceError where a sample has the key of one of some others of its shard.
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
			return &twiceError{x.shards[x.ShardOf(r.Sample)].Key, key}
		}
	}
	return nil
}

// repeatsNumbered counts the keys that several shards have where all follow from a rule: shards of one stem have their first keys in common.
func (x *Index) repeatsNumbered() (n uint64, example string) {
	counts := map[string][2]uint64{} // by stem: the two largest numbers of samples
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
