package chunkindex

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
)

// duplicateKeyError reports two samples of one shard with the same key.
type duplicateKeyError struct{ shard, key string }

func (e *duplicateKeyError) Error() string {
	return fmt.Sprintf("two samples in shard %s have the key %q: keys must be unique in a shard, and members with the same key that are not adjacent count as two samples: rewrite the shard with its members sorted by name, as "+
		"tar --sort=name does, or LC_ALL=C sort before zip -@", e.shard, e.key)
}

// hashes reads the hash records of a segment in order, with the numbers of samples in the index.
type hashes struct {
	segment *Segment
	base    uint64 // number of the segment's first sample
	next    int    // number of the next page
	recs    []layout.HashRecord
}

// mergeMemory limits the hash pages in memory while all segments are merged.
const mergeMemory = 32 << 20

// fill reads some of the next pages, unless earlier records are left. After the last page, recs is
// empty.
func (h *hashes) fill(ctx context.Context, some int) error {
	last := int(layout.HashPages(h.segment.head.Hashed()))
	if len(h.recs) > 0 {
		return nil
	}
	h.recs = nil
	for end := min(last, h.next+some); h.next < end; h.next++ {
		recs, err := h.segment.page(ctx, h.next)
		if err != nil {
			return err
		}
		for _, r := range recs {
			h.recs = append(h.recs, layout.HashRecord{Hash: r.Hash, Sample: h.base + r.Sample})
		}
	}
	return nil
}

// hashHeap merges the records of all segments. The segment with the least record is first.
type hashHeap []*hashes

func (h hashHeap) Len() int           { return len(h) }
func (h hashHeap) Less(i, j int) bool { return h[i].recs[0].Less(h[j].recs[0]) }
func (h hashHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *hashHeap) Push(v any)        { *h = append(*h, v.(*hashes)) }
func (h *hashHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// eachHash calls visit for the hash records of all segments, sorted by hash, then by sample.
func (x *Index) eachHash(ctx context.Context, visit func(layout.HashRecord) error) error {
	var pieces []piece
	var all hashHeap
	for i := range x.segments {
		s := &x.segments[i]
		if s.head.Hashed() == 0 {
			continue
		}
		if !s.pages.complete && s.pages.from != nil {
			pieces = append(pieces, s.pages.pieces([]layout.Section{s.head.Sections[layout.SecHash]})...)
		}
		all = append(all, &hashes{segment: s, base: x.first[s.chunk]})
	}
	if err := copyPieces(ctx, pieces); err != nil {
		return err
	}
	some := min(64, 1+mergeMemory/layout.PageSize/max(1, len(all)))
	for _, h := range all {
		if err := h.fill(ctx, some); err != nil {
			return err
		}
	}
	heap.Init(&all)
	for len(all) > 0 {
		h := all[0]
		if err := visit(h.recs[0]); err != nil {
			return err
		}
		h.recs = h.recs[1:]
		if err := cmp.Or(ctx.Err(), h.fill(ctx, some)); err != nil {
			return err
		}
		if len(h.recs) == 0 {
			heap.Pop(&all)
		} else {
			heap.Fix(&all, 0)
		}
	}
	return nil
}

// RepeatedKeys counts the key hashes that occur in several shards, and returns one such key. It
// returns a *duplicateKeyError for two samples of one shard with the same key. Samples with equal
// hashes are in stored order, so those of one shard are adjacent. Only their names are read and
// compared. Keys that follow from a rule are compared with each other.
func (x *Index) RepeatedKeys(ctx context.Context) (n uint64, example string, err error) {
	var same []layout.HashRecord // preceding records with the same hash in the same shard
	repeated := false            // an earlier shard has the same hash
	n, example = x.repeatsNumbered()
	err = x.eachHash(ctx, func(r layout.HashRecord) (err error) {
		switch {
		case len(same) == 0 || same[0].Hash != r.Hash:
			same, repeated = append(same[:0], r), false
			return nil
		case x.ShardOf(same[0].Sample) == x.ShardOf(r.Sample):
			err = x.differ(ctx, same, r)
			same = append(same, r)
			return err
		}
		if !repeated {
			if n++; example == "" {
				example, err = x.Key(ctx, r.Sample)
			}
		}
		same, repeated = append(same[:0], r), true
		return err
	})
	return n, example, err
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
		if count == 0 || x.segmentOfShard(i).head.Hashed() > 0 {
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
