package chunkindex

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/layout"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

// BadRange is a range of a shard that does not match the index.
type BadRange struct {
	Shard  string `json:"shard"`
	Chunk  int    `json:"chunk"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Cause  string `json:"cause"` // "not found", "changed", "short", "corrupt", or Rewritten
}

// Rewritten is the cause for an object that has the indexed bytes but a version other than the
// indexed one, such as a copy.
const Rewritten = "rewritten"

const maxVerify = 1 << 30 // memory limit for chunks checked concurrently; a single chunk may exceed it

// Verify reads every chunk and compares it with its digests, up to concurrency chunks at a time
// within a memory limit. It calls bad for each bad range. If an object's version is not the indexed
// one, Verify compares the object's current bytes.
func Verify(ctx context.Context, x *Index, store objstore.RangeReader, prefix string, concurrency int, progress func(Progress), bad func(BadRange)) error {
	return Scan(ctx, x, store, prefix, concurrency, progress, bad, func(context.Context, int, []byte) error { return nil })
}

// Scan is Verify that also calls visit with the bytes of each chunk that matches its digests. It
// calls visit concurrently, with chunks in any order, and returns its first error.
func Scan(ctx context.Context, x *Index, store objstore.RangeReader, prefix string, concurrency int, progress func(Progress), bad func(BadRange),
	visit func(ctx context.Context, chunk int, b []byte) error,
) error {
	v := &verifier{x: x, store: store, prefix: prefix, tell: progress, bad: bad, changed: map[string]bool{}}
	most := int64(1)
	for i := range x.Chunks() {
		v.progress.Total += int64(x.lengths[i])
		most = max(most, v.needs(x.Chunk(i)))
	}
	v.progress.Of = x.Shards()
	v.left = make([]int, x.Shards())
	for i := range x.Chunks() {
		for _, e := range x.Extents(i) {
			v.left[e.Shard]++
		}
	}
	for _, n := range v.left {
		if n == 0 {
			v.progress.Shards++ // the shard has no samples
		}
	}
	workers := verifiers(concurrency, x.Chunks(), most)
	bufs := make([][]byte, workers)
	return parallel.Each(ctx, workers, x.Chunks(), func(ctx context.Context, worker, i int) (err error) {
		whole := false
		if bufs[worker], whole, err = v.chunk(ctx, i, bufs[worker]); err != nil {
			return fmt.Errorf("verify chunk %d: %w", i, err)
		}
		if whole {
			err = visit(ctx, i, bufs[worker][:x.Length(i)])
		}
		return err
	})
}

// verifiers returns the number of chunks to check concurrently if the largest chunk needs most
// bytes of memory.
func verifiers(parallel, chunks int, most int64) int {
	return max(1, min(parallel, chunks, int(maxVerify/most)))
}

type verifier struct {
	x      *Index
	store  objstore.RangeReader
	prefix string

	mu       sync.Mutex
	left     []int           // unread extents per shard
	changed  map[string]bool // keys of shards whose version is not the indexed one; true: their bytes differ too
	progress Progress
	tell     func(Progress)
	bad      func(BadRange)
}

// needs returns the memory needed to check a chunk.
func (v *verifier) needs(c Chunk) int64 {
	return c.Length + c.Codec.Workspace(c.Stored, c.Length)
}

func (v *verifier) report(b BadRange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, is := v.changed[b.Shard]; is {
		v.changed[b.Shard], b.Cause = true, objstore.ErrChanged.Error()
	}
	if v.bad != nil {
		v.bad(b)
	}
}

// chunk checks one chunk, whose bytes it returns first, and reports whether it matches. It reports
// bad data through report. It returns only other errors, such as an unavailable store.
func (v *verifier) chunk(ctx context.Context, i int, buf []byte) (_ []byte, whole bool, err error) {
	if err := ctx.Err(); err != nil {
		return buf, false, err
	}
	c := v.x.Chunk(i)
	need := v.needs(c)
	if int64(cap(buf)) < need {
		buf = make([]byte, need)
	}
	buf = buf[:need]
	extents := v.x.Extents(i)
	stored := buf[c.Length:]
	if c.Codec == codec.None {
		stored = buf
	}
	stored = stored[:c.Stored]
	if whole, err = v.read(ctx, i, extents, stored); err != nil {
		return buf, false, err
	}
	if whole && c.Codec != codec.None {
		err := v.x.Decode(ctx, i, stored, buf[:c.Length])
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return buf, false, err
		}
		if err != nil {
			whole = false
			v.report(v.span(i, extents))
		}
	}
	if whole {
		if whole, err = v.compare(ctx, i, c, extents, buf[:c.Length]); err != nil {
			return buf, false, err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.Add(Progress{Done: c.Length, Samples: uint64(c.Samples)})
	for _, e := range extents {
		if v.left[e.Shard]--; v.left[e.Shard] > 0 {
			continue
		}
		v.progress.Shards++
		s := v.x.shards[e.Shard]
		if other, is := v.changed[s.Key]; is && !other && v.bad != nil {
			v.bad(BadRange{Shard: s.Key, Chunk: i, Length: s.Size, Cause: Rewritten})
		}
	}
	if v.tell != nil {
		v.tell(v.progress)
	}
	return buf, whole, nil
}

// read reads the extents of a chunk sequentially, and reports whether all of them could be read.
func (v *verifier) read(ctx context.Context, i int, extents []Extent, buf []byte) (whole bool, err error) {
	whole = true
	for _, e := range extents {
		s := v.x.shards[e.Shard]
		err := v.readExtent(ctx, e, buf[:e.Length])
		buf = buf[e.Length:]
		switch {
		case err == nil:
		case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrChanged), errors.Is(err, objstore.ErrShort):
			whole = false
			v.report(BadRange{Shard: s.Key, Chunk: i, Offset: e.Offset, Length: e.Length, Cause: cause(err)})
		default:
			return false, err
		}
	}
	return whole, nil
}

// readExtent reads an extent from the indexed version of its shard, or from the current version if
// both have the same length.
func (v *verifier) readExtent(ctx context.Context, e Extent, buf []byte) error {
	s := v.x.shards[e.Shard]
	now := objstore.Ref{Key: v.prefix + s.Key}
	err := v.store.ReadRange(ctx, objstore.Ref{Key: now.Key, ETag: s.ETag, VersionID: s.VersionID}, e.Offset, buf)
	if !errors.Is(err, objstore.ErrChanged) {
		return err
	}
	v.mu.Lock()
	other, known := v.changed[s.Key]
	v.changed[s.Key] = other
	v.mu.Unlock()
	last, one := s.Size-1, make([]byte, 1)
	if !known && (v.store.ReadRange(ctx, now, last, one) != nil || v.store.ReadRange(ctx, now, last+1, one) == nil) {
		return err // the lengths differ
	}
	if v.store.ReadRange(ctx, now, e.Offset, buf) == nil {
		return nil
	}
	return err
}

func cause(err error) string {
	for _, known := range []error{objstore.ErrNotFound, objstore.ErrChanged, objstore.ErrShort} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// compare checks the chunk's digests and reports the samples that do not match, adjacent ones as
// one range.
func (v *verifier) compare(ctx context.Context, i int, c Chunk, extents []Extent, buf []byte) (same bool, err error) {
	if crc32.Checksum(buf, layout.Castagnoli()) == c.CRC32C && sha256.Sum256(buf) == c.Digest {
		return true, nil
	}
	if c.Codec != codec.None { // compressed samples have no stored offset of their own
		v.report(v.span(i, extents))
		return false, nil
	}
	t, err := v.x.Table(ctx, i)
	if err != nil {
		return false, err
	}
	var bad []BadRange
	for j := range t.Len() {
		off := t.Offset(j)
		if crc32.Checksum(buf[off:off+t.Length(j)], layout.Castagnoli()) == t.CRC32C(j) {
			continue
		}
		r := v.place(i, extents, int64(off), int64(t.Length(j)))
		if n := len(bad) - 1; n >= 0 && bad[n].Shard == r.Shard && bad[n].Offset+bad[n].Length == r.Offset {
			bad[n].Length += r.Length
		} else {
			bad = append(bad, r)
		}
	}
	if len(bad) == 0 { // a fault between samples, or a CRC collision
		bad = append(bad, v.span(i, extents[:1]))
	}
	for _, r := range bad {
		v.report(r)
	}
	return false, nil
}

// span returns the range from a chunk's first extent to its last, for faults that cannot be located
// more precisely.
func (v *verifier) span(chunk int, extents []Extent) BadRange {
	first, last := extents[0], extents[len(extents)-1]
	return BadRange{Shard: v.x.shards[first.Shard].Key, Chunk: chunk, Offset: first.Offset, Length: last.Offset + last.Length - first.Offset, Cause: "corrupt"}
}

// place returns the range of a bad sample. For a sample in several extents, it returns the whole
// first extent.
func (v *verifier) place(chunk int, extents []Extent, off, length int64) BadRange {
	e := Locate(v.x.Chunk(chunk), extents, off)
	return BadRange{Shard: v.x.shards[e.Shard].Key, Chunk: chunk, Offset: e.Offset, Length: min(length, e.Length), Cause: "corrupt"}
}

// Touched calls visit with the number and key of each sample that overlaps a bad range. If the
// chunk is compressed, Touched visits all its samples.
func (x *Index) Touched(ctx context.Context, r BadRange, visit func(sample uint64, key []byte)) error {
	table, err := x.Table(ctx, r.Chunk)
	if err != nil {
		return fmt.Errorf("samples of chunk %d: %w", r.Chunk, err)
	}
	extents, first := x.Extents(r.Chunk), x.First()[r.Chunk]
	compressed, several := x.Chunk(r.Chunk).Codec != codec.None, len(extents) > 1
	err = x.Keys(ctx, r.Chunk, func(sample uint64, key []byte) {
		at, length := extents[0].Offset+int64(table.Offset(int(sample-first))), int64(table.Length(int(sample-first)))
		bad := at < r.Offset+r.Length && r.Offset < at+length
		if several {
			bad = x.ShardKey(sample) == r.Shard // each sample is an object
		}
		if compressed || bad {
			visit(sample, key)
		}
	})
	if err != nil {
		return fmt.Errorf("samples of chunk %d: %w", r.Chunk, err)
	}
	return nil
}
