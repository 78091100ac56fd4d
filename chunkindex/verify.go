package chunkindex

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// BadRange is a piece of a shard that does not match the index.
type BadRange struct {
	Shard  string `json:"shard"`
	Chunk  int    `json:"chunk"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
	Cause  string `json:"cause"`
}

// Verify reads every chunk and compares it with its digests, parallel chunks at a time; bad is called for each bad range.
func Verify(ctx context.Context, x *Index, store objstore.RangeReader, prefix string, parallel int, progress func(Progress), bad func(BadRange)) error {
	v := &verifier{x: x, store: store, prefix: prefix, tell: progress, bad: bad}
	for i := range x.Chunks() {
		v.progress.Total += int64(x.lengths[i])
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
			v.progress.Shards++ // no sample lies there
		}
	}
	workers := max(1, min(parallel, x.Chunks()))
	bufs := make([][]byte, workers)
	return sideBySide(ctx, workers, x.Chunks(), func(ctx context.Context, worker, i int) (err error) {
		if bufs[worker], err = v.chunk(ctx, i, bufs[worker]); err != nil {
			err = fmt.Errorf("verify chunk %d: %w", i, err)
		}
		return err
	})
}

type verifier struct {
	x      *Index
	store  objstore.RangeReader
	prefix string

	mu       sync.Mutex
	left     []int // extents of each shard that are still to be read
	progress Progress
	tell     func(Progress)
	bad      func(BadRange)
}

func (v *verifier) report(b BadRange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bad != nil {
		v.bad(b)
	}
}

// chunk checks one chunk. Only an error that says nothing about the data ends the run.
func (v *verifier) chunk(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return buf, err
	}
	c := v.x.Chunk(i)
	if int64(cap(buf)) < c.Length {
		buf = make([]byte, c.Length)
	}
	buf = buf[:c.Length]
	extents := v.x.Extents(i)
	at := int64(0)
	whole := true
	for _, e := range extents {
		s := v.x.shards[e.Shard]
		err := v.store.ReadRange(ctx, objstore.Ref{Key: v.prefix + s.Key, ETag: s.ETag, VersionID: s.VersionID}, e.Offset, buf[at:at+e.Length])
		at += e.Length
		switch {
		case err == nil:
		case errors.Is(err, objstore.ErrNotFound), errors.Is(err, objstore.ErrChanged), errors.Is(err, objstore.ErrShort):
			whole = false
			v.report(BadRange{Shard: s.Key, Chunk: i, Offset: e.Offset, Length: e.Length, Cause: cause(err)})
		default:
			return buf, err
		}
	}
	if whole {
		if err := v.compare(ctx, i, c, extents, buf); err != nil {
			return buf, err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress.Add(Progress{Done: c.Length, Samples: uint64(c.Samples)})
	for _, e := range extents {
		if v.left[e.Shard]--; v.left[e.Shard] == 0 {
			v.progress.Shards++
		}
	}
	if v.tell != nil {
		v.tell(v.progress)
	}
	return buf, nil
}

func cause(err error) string {
	for _, known := range []error{objstore.ErrNotFound, objstore.ErrChanged, objstore.ErrShort} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return err.Error()
}

// compare checks the digests, and where they differ finds the samples to blame.
func (v *verifier) compare(ctx context.Context, i int, c Chunk, extents []Extent, buf []byte) error {
	if crc32.Checksum(buf, castagnoli()) == c.CRC32C && sha256.Sum256(buf) == c.Digest {
		return nil
	}
	e := extents[0]
	whole := BadRange{Shard: v.x.shards[e.Shard].Key, Chunk: i, Offset: e.Offset, Length: e.Length, Cause: "corrupt"}
	if len(extents) > 1 {
		v.report(whole)
		return nil
	}
	t, err := v.x.Table(ctx, i)
	if err != nil {
		return err
	}
	found := false
	for j, off := range t.Offset {
		if crc32.Checksum(buf[off:off+t.Length[j]], castagnoli()) == t.CRC32C[j] {
			continue
		}
		found = true
		b := whole
		b.Offset, b.Length = e.Offset+int64(off), int64(t.Length[j])
		v.report(b)
	}
	if !found { // between the samples, or a CRC that collides
		v.report(whole)
	}
	return nil
}

// Collect removes index objects that no pointer names and that are older than grace, and returns their keys.
func Collect(ctx context.Context, store objstore.Store, prefix string, grace time.Duration) ([]string, error) {
	p, _, err := readPointer(ctx, store, prefix)
	if err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, advise(prefix, err))
	}
	keep := map[string]bool{
		prefix + pointerKey:                            true,
		indexObject(prefix, p.Generation):              true,
		bindingObject(prefix, p.Generation, p.Binding): true,
	}
	limit := time.Now().Add(-grace)
	var old []string
	err = store.List(ctx, prefix+stateDir, func(o objstore.Object) error {
		name := strings.TrimPrefix(o.Key, prefix)
		ours := strings.HasPrefix(name, indexDir) || strings.HasPrefix(name, bindingDir) ||
			strings.HasPrefix(name, scanDir) || strings.HasPrefix(name, probeDir)
		if ours && !keep[o.Key] && o.Modified.Before(limit) {
			old = append(old, o.Key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("gc %q: %w", prefix, err)
	}
	// The pointer may have moved to one of these meanwhile.
	if now, _, err := readPointer(ctx, store, prefix); err != nil || now != p {
		return nil, fmt.Errorf("gc %q: the current generation changed meanwhile: %w", prefix, objstore.ErrChanged)
	}
	var removed []string
	for _, key := range old {
		// An index run that goes back to an old generation writes its objects anew before it moves the pointer.
		obj, err := store.Stat(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) || (err == nil && !obj.Modified.Before(limit)) {
			continue
		}
		if err == nil {
			err = store.Delete(ctx, key)
		}
		if err != nil {
			return removed, fmt.Errorf("gc %q: %w", prefix, err)
		}
		removed = append(removed, key)
	}
	return removed, nil
}
