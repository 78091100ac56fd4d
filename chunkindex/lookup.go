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
	from, to := uint64(0), x.head.samples
	if shard != "" {
		from, to = x.samplesOf(shard)
	}
	var found []uint64
	if x.head.hashed() > 0 {
		found, err = x.withKey(ctx, key, from, to)
	} else {
		found = x.numbered(key, from, to)
	}
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("index %.12s: %w", x.digest, err)
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
	first := hashed{hashKey([]byte(key)), from}
	pages := int(hashPages(x.head.hashed()))
	page, err := x.findPage(ctx, first, pages)
	if err != nil {
		return nil, err
	}
	for others := 0; page < pages; page++ {
		recs, err := x.page(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, r := range recs[sort.Search(len(recs), func(i int) bool { return !recs[i].less(first) }):] {
			if r.hash != first.hash || r.sample >= to || len(found) > MaxShardsListed {
				return found, nil
			}
			got, err := x.Key(ctx, r.sample)
			if err != nil {
				return nil, err
			}
			if got == key {
				found = append(found, r.sample)
			} else if others++; others > maxSameHash {
				return nil, fmt.Errorf("hash page %d: %w", page, errMalformed)
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
	return uint64(sort.Search(int(x.head.samples), func(s int) bool { return x.ShardOf(uint64(s)) >= shard }))
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
		if x.shards[i].stem != len(stem) {
			continue
		}
		first := x.firstOf(i)
		if at := first + n; n < x.firstOf(i+1)-first && at >= from && at < to {
			found = append(found, at)
		}
	}
	return found
}

// less says whether a record comes before another one in the hash section.
func (r hashed) less(other hashed) bool {
	return r.hash < other.hash || r.hash == other.hash && r.sample < other.sample
}

// findPage returns the first page whose last record is not before the one that is sought. Hashes are
// uniform, so a guess from the hash itself is nearly right, and the search starts around it.
func (x *Index) findPage(ctx context.Context, sought hashed, pages int) (int, error) {
	lo, hi := 0, pages
	guess := int(float64(sought.hash) / (1 << 64) * float64(pages))
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
		case recs[len(recs)-1].less(sought):
			lo = guess + 1
			guess += step
		case !recs[0].less(sought):
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
func (x *Index) page(ctx context.Context, n int) ([]hashed, error) {
	b := make([]byte, pageSize)
	if err := x.pages.read(ctx, x.head.sections[secHash].offset+int64(n)*pageSize, b); err != nil {
		return nil, err
	}
	if crc32.Checksum(b[:pageCRC], castagnoli()) != binary.LittleEndian.Uint32(b[pageCRC:]) {
		return nil, fmt.Errorf("hash page %d: checksum is wrong", n)
	}
	count := uint64(binary.LittleEndian.Uint32(b[16*pageRecords:]))
	if want := min(pageRecords, x.head.samples-uint64(n)*pageRecords); count != want {
		return nil, fmt.Errorf("hash page %d: %w", n, errMalformed)
	}
	recs := make([]hashed, count)
	for i := range recs {
		recs[i] = hashed{binary.LittleEndian.Uint64(b[16*i:]), binary.LittleEndian.Uint64(b[16*i+8:])}
		if recs[i].sample >= x.head.samples || (i > 0 && !recs[i-1].less(recs[i])) {
			return nil, fmt.Errorf("hash page %d: %w", n, errMalformed)
		}
	}
	return recs, nil
}

// repeats is what an index holds of keys that several shards have.
type repeats struct {
	keys    uint64 // how many there are, by their hashes
	example string
}

// twiceError says that two samples of one shard have the same key.
type twiceError struct{ shard, key string }

func (e *twiceError) Error() string {
	return fmt.Sprintf("two samples in shard %s have the key %q: keys must be unique in a shard, and members of one key that are not adjacent are two samples: write the shard anew with its members in the order of their names, as "+
		"tar --sort=name does, or LC_ALL=C sort before zip -@", e.shard, e.key)
}

// repeats counts the keys that several shards have. Two samples of one shard with one key are a *twiceError. Samples of one
// hash are in stored order, so those of one shard are neighbours: names are read of these alone.
func (x *Index) repeats(ctx context.Context) (repeats, error) {
	var found repeats
	var same []hashed // records before this one, of one hash and one shard
	repeated := false // a shard before this one has the hash too
	if x.head.hashed() == 0 {
		return x.repeatsNumbered(), nil
	}
	for n := range int(hashPages(x.head.samples)) {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		recs, err := x.page(ctx, n)
		if err != nil {
			return found, err
		}
		for _, r := range recs {
			switch {
			case len(same) == 0 || same[0].hash != r.hash:
				same, repeated = append(same[:0], r), false
				continue
			case x.ShardOf(same[0].sample) == x.ShardOf(r.sample):
				if err := x.differ(ctx, same, r); err != nil {
					return found, err
				}
				same = append(same, r)
				continue
			}
			if !repeated {
				if found.keys++; found.keys == 1 {
					if found.example, err = x.Key(ctx, r.sample); err != nil {
						return found, err
					}
				}
			}
			same, repeated = append(same[:0], r), true
		}
	}
	return found, nil
}

// differ returns a *twiceError where a sample has the key of one of some others of its shard.
func (x *Index) differ(ctx context.Context, same []hashed, r hashed) error {
	if len(same) >= maxSameHash {
		return fmt.Errorf("%d keys of one shard have one hash: %w", len(same)+1, errMalformed)
	}
	key, err := x.Key(ctx, r.sample)
	if err != nil {
		return err
	}
	for _, o := range same {
		other, err := x.Key(ctx, o.sample)
		if err != nil {
			return err
		}
		if other == key {
			return &twiceError{x.shards[x.ShardOf(r.sample)].Key, key}
		}
	}
	return nil
}

// repeatsNumbered counts the keys that several shards have where all follow from a rule: shards of one stem have their first keys in common.
func (x *Index) repeatsNumbered() (found repeats) {
	counts := map[string][2]uint64{} // by stem: the two largest numbers of samples
	for i, s := range x.shards {
		n := x.firstOf(i+1) - x.firstOf(i)
		if n == 0 {
			continue
		}
		most := counts[s.Key[:s.stem]]
		switch {
		case n > most[0]:
			most = [2]uint64{n, most[0]}
		case n > most[1]:
			most[1] = n
		}
		counts[s.Key[:s.stem]] = most
		if most[1] > 0 && found.example == "" {
			found.example = format.Numbered(s.Key[:s.stem], 0)
		}
	}
	for _, most := range counts {
		found.keys += most[1]
	}
	return found
}
