package chunkindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
)

// reuse takes what it can from the current generation, if it was cut by the same rules, and returns the shards that are left.
func (b *builder) reuse() []int {
	known := map[string]int{}
	if b.old != nil && b.old.meta.ChunkSize == b.opt.ChunkSize && b.old.meta.Scanner == b.format.Rules() && b.old.extents.first == nil {
		for i, s := range b.old.shards {
			known[s.Key] = i
		}
	}
	var todo []int
	for i, o := range b.shards {
		at, ok := known[strings.TrimPrefix(o.Key, b.prefix)]
		if ok && b.old.shards[at].Size == o.Size && b.old.shards[at].ETag == o.ETag {
			s, err := newShardOf(b.old, at)
			if err == nil {
				b.scans[i] = s
				b.report.ReusedShards++
				b.step(Progress{Done: o.Size, Kept: o.Size, Shards: 1, Samples: s.totals().samples})
				continue
			}
		}
		todo = append(todo, i)
	}
	return todo
}

func (b *builder) step(more Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Add(more)
	if b.opt.Progress != nil {
		b.opt.Progress(b.progress)
	}
}

// scanAll scans shards side by side. The first error ends all of them.
func (b *builder) scanAll(ctx context.Context, todo []int) error {
	return sideBySide(ctx, b.opt.Parallel, len(todo), func(ctx context.Context, _, n int) error {
		i := todo[n]
		if err := b.scan(ctx, i); err != nil {
			return fmt.Errorf("shard %s: %w", b.shards[i].Key, err)
		}
		return nil
	})
}

// scanKey names the result of scanning one version of a shard by one version of the rules: a scan that
// other rules made, or that is written in another form, has another name, and is never looked at.
func (b *builder) scanKey(o objstore.Object) string {
	id := fmt.Sprintf("%s\n%d\n%s\n%d\n%d\n%q\n%q", scanMagic, b.opt.ChunkSize, b.format.Name(), b.format.Rules(), o.Size, o.Key, o.ETag)
	sum := sha256.Sum256([]byte(id))
	return b.prefix + scanDir + hex.EncodeToString(sum[:])
}

// scan makes the scan of one shard, or fetches the one that an interrupted run left.
func (b *builder) scan(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := b.shards[i]
	key := b.scanKey(o)
	b.mu.Lock()
	kept := b.done[key]
	b.mu.Unlock()
	if kept {
		s, err := fetchScan(ctx, b.store, key, b.dir, o.Size)
		if err == nil {
			b.scans[i] = s
			b.mu.Lock()
			b.report.ReusedShards++
			b.mu.Unlock()
			b.step(Progress{Done: o.Size, Kept: o.Size, Shards: 1, Samples: s.sum.samples})
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
	w, err := newScanWriter(b.dir)
	if err != nil {
		return err
	}
	if err := b.read(ctx, i, w); err != nil {
		w.discard()
		return err
	}
	s, err := w.finish()
	if err != nil {
		return err
	}
	b.scans[i] = s
	if err := putFile(ctx, b.store, key, s.path, s.size); err != nil {
		return fmt.Errorf("keep the scan: %w", err)
	}
	b.mu.Lock()
	b.done[key] = true
	b.mu.Unlock()
	b.step(Progress{Shards: 1, Samples: s.sum.samples})
	return nil
}

func (b *builder) read(ctx context.Context, i int, w *scanWriter) error {
	o := b.shards[i]
	in, err := b.store.Open(ctx, o.Ref(), 0)
	if err != nil {
		return err
	}
	defer in.Close()
	count := &countingReader{in: in, step: func(n int64) { b.step(Progress{Done: n}) }}
	cut := newCutter(b.opt.ChunkSize, w.write)
	if err := b.found.Scan(ctx, i, count, cut); err != nil {
		return err
	}
	if err := cut.finish(); err != nil {
		return err
	}
	b.mu.Lock()
	b.report.ReadBytes += count.n
	b.mu.Unlock()
	if count.n != o.Size {
		return fmt.Errorf("%w: %d bytes were read, not %d", objstore.ErrShort, count.n, o.Size)
	}
	return nil
}

// countingReader reports progress every few megabytes.
type countingReader struct {
	in      io.Reader
	n, told int64
	step    func(int64)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	r.n += int64(n)
	if r.n-r.told >= 4<<20 || err != nil {
		r.step(r.n - r.told)
		r.told = r.n
	}
	return n, err
}

// removeScans takes away what an interrupted run would have needed.
func (b *builder) removeScans(ctx context.Context) error {
	for key := range b.done {
		if err := b.store.Delete(ctx, key); err != nil {
			return fmt.Errorf("remove scan %s: %w", key, err)
		}
	}
	return nil
}
