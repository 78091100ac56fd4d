package chunkindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (b *builder) step(more Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Add(more)
	if b.opt.Progress != nil {
		b.opt.Progress(b.progress)
	}
}

// scanAll scans units side by side. The first error ends all of them. Of loose objects there is one unit at a time, whose
// objects are read side by side.
func (b *builder) scanAll(ctx context.Context, todo []int) error {
	parallel := b.opt.Parallel
	if b.found.Loose {
		parallel = 1
	}
	return sideBySide(ctx, parallel, len(todo), func(ctx context.Context, _, n int) error {
		return b.scan(ctx, todo[n])
	})
}

// scanKey names the result of scanning one version of some shards by one version of the rules: a scan that
// other rules made, or that is written in another form, has another name, and is never looked at.
func (b *builder) scanKey(u unit) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%d\n%s\n%d\n%d\n%q", scanMagic, b.opt.ChunkSize, b.format.Name(), b.format.Rules(), b.found.Overlap, b.found.Framing)
	for i := u.from; i < u.to; i++ {
		o := b.shards[i]
		fmt.Fprintf(sum, "\n%d\n%q\n%q\n%d\n%q", o.Size, o.Key, o.ETag, b.codec(i), b.found.Shards[i].Says)
	}
	return b.prefix + scanDir + hex.EncodeToString(sum.Sum(nil))
}

// codec of a shard, from its name. A loose object is a sample as it is stored.
func (b *builder) codec(shard int) codec.Codec {
	if b.found.Loose {
		return codec.None
	}
	c, _ := codec.Of(b.shards[shard].Key)
	return c
}

// scan makes the scan of one unit, or fetches the one that an interrupted run left.
func (b *builder) scan(ctx context.Context, i int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	u := b.units[i]
	key, size, count := b.scanKey(u), b.bytes(u), u.to-u.from
	b.mu.Lock()
	kept := b.done[key]
	b.mu.Unlock()
	if kept {
		sizes := make([]int64, 0, count)
		for _, o := range b.shards[u.from:u.to] {
			sizes = append(sizes, o.Size)
		}
		s, err := fetchScan(ctx, b.store, key, b.dir, sizes, b.found.Overlap)
		if err == nil {
			b.scans[i] = s
			b.mu.Lock()
			b.report.ReusedShards += count
			b.mu.Unlock()
			b.step(Progress{Done: size, Kept: size, Shards: count, Samples: s.sum.samples})
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
	if err := b.read(ctx, u, w); err != nil {
		w.discard()
		return err
	}
	s, err := w.finish()
	if err != nil {
		return err
	}
	b.scans[i] = s
	if s.size <= maxScan(count, size) {
		if err := putFile(ctx, b.store, key, s.path, s.size); err != nil {
			return fmt.Errorf("keep the scan: %w", err)
		}
		b.mu.Lock()
		b.done[key] = true
		b.mu.Unlock()
	}
	b.step(Progress{Shards: count, Samples: s.sum.samples})
	return nil
}

func (b *builder) read(ctx context.Context, u unit, w *scanWriter) error {
	cut := newCutter(b.opt.ChunkSize, w.write)
	if b.found.Loose {
		return b.readLoose(ctx, u, cut)
	}
	return b.readShard(ctx, u.from, cut)
}

func (b *builder) readShard(ctx context.Context, i int, cut *cutter) error {
	o := b.shards[i]
	err := b.decodeShard(ctx, i, cut)
	if err != nil {
		return fmt.Errorf("shard %s: %w", o.Key, err)
	}
	b.addRead(o.Size)
	return nil
}

func (b *builder) decodeShard(ctx context.Context, i int, cut *cutter) error {
	o := b.shards[i]
	in, err := b.store.Open(ctx, o.Ref(), 0)
	if err != nil {
		return err
	}
	defer in.Close()
	count := &countingReader{in: in, step: func(n int64) { b.step(Progress{Done: n}) }}
	decoded := io.Reader(count)
	if c := b.codec(i); c != codec.None && o.Size > 0 {
		r, err := codec.NewReader(c, count)
		if err != nil {
			return err
		}
		defer r.Close()
		decoded, cut.codec, cut.frames = r, c, r
	}
	if err := b.found.Scan(ctx, i, decoded, cut); err != nil {
		return err
	}
	if count.n != o.Size {
		return fmt.Errorf("%w: %d bytes were read, not %d", objstore.ErrShort, count.n, o.Size)
	}
	if cut.loose {
		return nil
	}
	return cut.finish()
}

func (b *builder) addRead(n int64) {
	b.mu.Lock()
	b.report.ReadBytes += n
	b.mu.Unlock()
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
