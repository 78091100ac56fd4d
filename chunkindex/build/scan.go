package build

import (
	"context"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/codec"
	"github.com/millrace-data/millrace/chunkindex/internal/parallel"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (b *builder) step(more chunkindex.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Add(more)
	if b.opt.Progress != nil {
		b.opt.Progress(b.progress)
	}
}

// scanAll scans units concurrently until the first error. It scans units of loose objects one at a
// time, because it reads the objects of each unit concurrently.
func (b *builder) scanAll(ctx context.Context, todo []int) error {
	workers := b.opt.Parallel
	if b.found.Loose {
		workers = 1
	}
	return parallel.Each(ctx, workers, len(todo), func(ctx context.Context, worker, n int) error {
		w, err := b.writer(worker)
		if err != nil {
			return err
		}
		return b.scan(ctx, todo[n], w)
	})
}

// writer returns the worker's scan writer, creating it on first use.
func (b *builder) writer(worker int) (*scanWriter, error) {
	var err error
	if b.writers[worker] == nil {
		b.writers[worker], err = newScanWriter(b.opt.TempDir)
	}
	return b.writers[worker], err
}

// codec returns the compression that a shard's name indicates. Loose objects are never
// decompressed.
func (b *builder) codec(shard int) codec.Codec {
	if b.found.Loose {
		return codec.None
	}
	c, _ := codec.Of(b.shards[shard].Key)
	return c
}

// scan scans one unit.
func (b *builder) scan(ctx context.Context, i int, w *scanWriter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	u := b.units[i]
	w.begin()
	cut := newCutter(b.opt.ChunkSize, w.write)
	cut.shard, cut.overlap = b.key(u.from), b.found.Overlap
	if err := b.read(ctx, u, cut); err != nil {
		return err
	}
	s, err := w.finish()
	if err != nil {
		return err
	}
	b.scans[i] = s
	b.countOutside(cut)
	b.step(chunkindex.Progress{Shards: u.to - u.from, Samples: s.sum.Samples})
	return b.keep(ctx, u, s)
}

// countOutside adds a cutter's counts to the report. The example is the smallest name, so that the
// example does not depend on timing.
func (b *builder) countOutside(cut *cutter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := cut.outside; n.count > 0 && (b.report.Outside == 0 || n.example < b.report.OutsideExample) {
		b.report.OutsideExample = n.example
	}
	b.report.Outside += cut.outside.count
}

func (b *builder) readShard(ctx context.Context, i int, cut *cutter) error {
	if err := b.decodeShard(ctx, i, cut); err != nil {
		return fmt.Errorf("shard %s: %w", b.shards[i].Key, err)
	}
	return nil
}

func (b *builder) decodeShard(ctx context.Context, i int, cut *cutter) error {
	o := b.shards[i]
	if b.found.Decode != nil && o.Size > 0 {
		return b.decodeRanges(ctx, i, cut)
	}
	in, err := b.store.Open(ctx, o.Ref(), 0)
	if err != nil {
		return err
	}
	defer in.Close()
	count := &countingReader{in: in, step: func(n int64) { b.step(chunkindex.Progress{Done: n}) }}
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
	b.addRead(o.Size)
	return nil
}

// decodeRanges scans a shard that its format decodes from ranges of the object.
func (b *builder) decodeRanges(ctx context.Context, i int, cut *cutter) error {
	o := b.shards[i]
	in := &ranges{store: b.store, ref: o.Ref(), step: func(n int64) { b.step(chunkindex.Progress{Done: n}) }}
	d, err := b.found.Decode(ctx, i, in)
	if err != nil {
		return err
	}
	defer d.Close()
	if d.Frames != nil {
		cut.codec, cut.frames = d.Codec, d.Frames
	}
	if err := b.found.Scan(ctx, i, d, cut); err != nil {
		return err
	}
	if in.n < o.Size { // also counts unread bytes, so that progress reaches the total size of the shards
		in.step(o.Size - in.n)
	}
	b.addRead(min(in.n, o.Size)) // limits the count, because a footer may be read twice
	return nil
}

// ranges reads ranges of one object and reports progress.
type ranges struct {
	store objstore.Store
	ref   objstore.Ref
	n     int64
	step  func(int64)
}

// ReadRange implements format.Ranges.
func (r *ranges) ReadRange(ctx context.Context, offset int64, p []byte) error {
	err := r.store.ReadRange(ctx, r.ref, offset, p)
	r.n += int64(len(p))
	r.step(int64(len(p)))
	return err
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
