package datapath

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/diskcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/internal/tracing"
)

const (
	diskQueue = 1 << 16 // chunks waiting to be written
	refChunks = 40      // number of bits for the chunk number in a reference of the disk tier

	// The disk is bypassed while reading a chunk takes more than this factor longer from disk
	// than from the store. The margin exceeds the variation of measurements.
	diskSlack = 1.25
	// diskProbe is how long the disk is bypassed before it is tried again.
	diskProbe = time.Second
)

// disk is the tier between memory and store. Its reads take no place in the store's gate.
type disk struct {
	next    tier
	path    *Path
	cache   *diskcache.Cache
	gate    gate
	queue   chan uint64 // references of chunks
	dropped atomic.Uint64
	pace    pace
}

func newDisk(p *Path, c *diskcache.Cache) *disk {
	c.Follow(p.untilRead)
	return &disk{path: p, cache: c, gate: gate{limit: policy.DiskReads, idle: p.look}, queue: make(chan uint64, diskQueue)}
}

// KeepOnDisk lets the path's disk tier, if there is one, store the dataset's chunks. origin
// identifies the location of the dataset's shards, and must be the same after a restart. Without
// CheckSHA, chunks on disk are served only to readers of the same generation and origin, so a
// forged index cannot supply another dataset's chunks. KeepOnDisk must be called before the first
// Read.
func (s *Source) KeepOnDisk(origin string) {
	d := s.path.disk
	if d == nil {
		return
	}
	s.path.mu.Lock()
	s.onDisk = true
	if !s.path.cfg.CheckSHA {
		s.origin = sha256.Sum256([]byte(s.index.Generation() + "\x00" + origin))
	}
	s.path.mu.Unlock()
	for i := range s.index.Chunks() {
		d.cache.Adopt(s.diskKey(i), s.ref(i))
	}
}

func (s *Source) diskKey(chunk int) diskcache.Key {
	c := s.index.Chunk(chunk)
	return diskcache.Key{Source: s.origin, Digest: c.Digest, Length: c.Length, CRC32C: c.CRC32C}
}

func (s *Source) ref(chunk int) uint64 { return uint64(s.place)<<refChunks | uint64(chunk) }

// find returns the source and chunk of a disk reference, and begins a use of the source. It returns
// nil if the source is closed.
func (p *Path) find(ref uint64) (s *Source, chunk int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i, ok := slices.BinarySearchFunc(p.open, int(ref>>refChunks), func(s *Source, place int) int { return s.place - place })
	if !ok || !p.open[i].enter() {
		return nil, 0
	}
	return p.open[i], int(ref & (1<<refChunks - 1))
}

// untilRead returns the time until a chunk has to be read from disk, computed from the demand of
// the known readers. A chunk in memory serves its next use from there, so the use after that
// counts.
func (p *Path) untilRead(ref uint64) time.Duration {
	s, chunk := p.find(ref)
	if s == nil {
		return diskcache.Never
	}
	defer s.leave()
	t := p.readers.NextRead(s, chunk, s.chunks.Resident(chunk))
	if t == lookahead.Never {
		return diskcache.Never
	}
	return t
}

// answers reports whether the disk tier delivers a chunk: the chunk is on disk, and the disk is not
// slower than the store.
func (d *disk) answers(s *Source, chunk int) bool {
	return s.onDisk && !d.pace.slower(&s.path.rates, s.index.Chunk(chunk), time.Now()) && s.isOnDisk(chunk)
}

// Load reads the chunks that are on disk, several concurrently, and offers the other chunks to the
// disk once they are loaded.
func (d *disk) Load(ctx context.Context, l *load, fills []*fill) (err error) {
	if !l.source.onDisk {
		return d.next.Load(ctx, l, fills)
	}
	rest := d.bring(ctx, l, fills)
	if len(rest) == 0 {
		return nil
	}
	if l.held == &d.gate { // the caller holds a place of the disk gate, not of the store's gate: if the store's gate has no free place, a request that joined this load reads the chunk itself
		if l.held = d.path.gate; !l.held.enterAhead(l.held.places()) {
			return chunkcache.ErrNoRoom
		}
		defer func() { l.held.leaveAhead(err != nil) }()
	}
	if err := d.next.Load(ctx, l, rest); err != nil {
		return err
	}
	if rest[0].whole != nil && !l.toDisk {
		for _, x := range rest {
			l.source.keep(x.Chunk)
		}
	}
	return nil
}

// bring reads the chunks that are on disk, and returns the others in the same order.
func (d *disk) bring(ctx context.Context, l *load, fills []*fill) (rest []*fill) {
	read := make([]bool, len(fills))
	var g errgroup.Group
	g.SetLimit(policy.DiskReads)
	for i, x := range fills {
		switch {
		case !d.answers(l.source, x.Chunk):
		case len(fills) == 1:
			read[i] = d.read(ctx, l, x)
		default:
			g.Go(func() error { read[i] = d.read(ctx, l, x); return nil })
		}
	}
	_ = g.Wait() // the functions return no errors
	for i, x := range fills {
		if read[i] {
			l.came.disk += bytesOf(x.ChunkRanges)
		} else {
			rest = append(rest, x)
		}
	}
	return rest
}

// read reads one chunk, or samples of one, and reports whether that succeeded.
func (d *disk) read(ctx context.Context, l *load, x *fill) (came bool) {
	ctx, span := tracing.Start(ctx, "disk read")
	span.Number("millrace.chunk", int64(x.Chunk))
	defer func() {
		if !came {
			span.Fail("not read from disk")
		}
		span.End()
	}()
	if l.held != &d.gate {
		if d.enter(ctx) != nil {
			return false
		}
		defer d.gate.leave(d)
	}
	k := l.source.diskKey(x.Chunk)
	if x.whole == nil {
		return d.readRanges(ctx, k, x)
	}
	begun := time.Now()
	read := d.cache.Read(ctx, k, x.whole.Bytes())
	d.pace.tried(read, k.Length, time.Since(begun), time.Now())
	if !read {
		return false
	}
	if s := l.source; s.path.cfg.CheckSHA && !s.intact(s.index.Chunk(x.Chunk), x.whole.Bytes(), k.CRC32C) {
		d.cache.Reject(ctx, k)
		return false
	}
	x.whole.Publish()
	return true
}

func (d *disk) readRanges(ctx context.Context, k diskcache.Key, x *fill) bool {
	pieces := make([]diskcache.Piece, 0, len(x.Ranges))
	for _, r := range x.Ranges {
		if r.Length > 0 {
			pieces = append(pieces, diskcache.Piece{Offset: int64(r.Offset), CRC32C: r.CRC32C, Dst: x.memory(r)})
		}
	}
	begun := time.Now()
	read := d.cache.ReadPieces(ctx, k, pieces)
	d.pace.tried(read, 0, time.Since(begun), time.Now()) // many short reads do not show the disk's throughput
	if read {
		x.publish()
	}
	return read
}

// enter waits for a place for a read, for at most diskcache.Stall, since the store can deliver the
// chunk too.
func (d *disk) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, diskcache.Stall)
	defer cancel()
	return d.gate.enter(ctx, d)
}

// keep offers a chunk that was read from the store to the disk. It never waits: if the queue is
// full, the chunk is offered again at its next load.
func (s *Source) keep(chunk int) {
	if !s.onDisk {
		return
	}
	select {
	case s.path.disk.queue <- s.ref(chunk):
	default:
		s.path.disk.dropped.Add(1)
	}
}

// run writes queued chunks that are still in memory to disk until ctx ends. Requests never wait for
// a write. Each write holds a lease on its chunk, for a few seconds at most.
func (d *disk) run(ctx context.Context, started *sync.WaitGroup) {
	for range policy.DiskWriters {
		started.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case ref := <-d.queue:
					if s, chunk := d.path.find(ref); s != nil {
						s.writeHeld(context.WithoutCancel(ctx), chunk)
						s.leave()
					}
				}
			}
		})
	}
}

// writeHeld writes a chunk to disk if it is in memory. It skips a chunk that has already been
// evicted.
func (s *Source) writeHeld(ctx context.Context, chunk int) {
	l, ok := s.path.cache.Lease(s.chunks, 1, false, func(int) int { return chunk })
	if !ok {
		if !s.isOnDisk(chunk) {
			s.path.disk.dropped.Add(1)
		}
		return
	}
	defer l.Close()
	s.write(ctx, chunk, l.Bytes(0))
}

// write writes a chunk to disk, and reports whether it is on disk afterwards.
func (s *Source) write(ctx context.Context, chunk int, data []byte) bool {
	return s.path.disk.cache.Write(ctx, s.diskKey(chunk), s.ref(chunk), data)
}

// isOnDisk reports whether a chunk is on disk, even while the disk is bypassed.
func (s *Source) isOnDisk(chunk int) bool {
	if !s.onDisk {
		return false
	}
	key := s.diskKey(chunk)
	return s.path.disk.cache.Contains(key)
}

// pace measures the disk: the recent mean time per byte to open, read and check a chunk.
type pace struct {
	mu      sync.Mutex // guards the fields below
	reads   int
	perByte float64 // seconds
	last    time.Time
}

// tried records a completed read, and its rate if the read was long enough to measure.
func (p *pace) tried(ok bool, bytes int64, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
	if !ok || bytes < policy.RatedBytes {
		return
	}
	p.reads++
	p.perByte += (took.Seconds()/float64(bytes) - p.perByte) * max(1/float64(p.reads), 1./8)
}

// slower reports whether a chunk takes longer to read from disk than from the store. It returns
// false if either has not been measured, or the disk has not been tried recently.
func (p *pace) slower(store *rates, c chunkindex.Chunk, now time.Time) bool {
	wait, known := store.takes(c.Stored)
	p.mu.Lock()
	defer p.mu.Unlock()
	return known && p.reads >= policy.RatedReads && now.Sub(p.last) < diskProbe &&
		p.perByte*float64(c.Length) > diskSlack*wait.Seconds()
}

// takes returns the duration of one store read of the given size, and false until enough reads were
// measured.
func (r *rates) takes(bytes int64) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all.Reads < policy.RatedReads {
		return 0, false
	}
	return time.Duration((r.all.First + float64(bytes)/r.all.Stream) * float64(time.Second)), true
}
