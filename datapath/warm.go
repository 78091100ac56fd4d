package datapath

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/datapath/policy"
	"github.com/millrace-data/millrace/shuffle"
)

// warmFor limits how long one call of Warm starts new reads.
const warmFor = time.Second

// Warm loads the chunks that an epoch needs from position at.First on, in order of need, before any
// reader arrives. It loads into memory as far as prefetching may use it, then to the tiers behind
// it. It starts reads for about a second, and returns the position to continue from. Chunks that
// are already loaded cost nothing, so a call can be repeated. Errors are those of Read; chunks
// loaded before an error stay.
func (s *Source) Warm(ctx context.Context, at shuffle.Cursor) (batch.Warmed, error) {
	if err := context.Cause(ctx); err != nil {
		return batch.Warmed{}, err
	}
	if !s.enter() {
		return batch.Warmed{}, ErrClosed
	}
	defer s.leave()
	ctx, end := s.until(ctx)
	defer end()
	s.path.reown()
	s.path.readers.Announce(s, at, time.Now())
	w := &warming{source: s, room: s.path.warmRoom(s)}
	defer w.running.Wait() // also after a panic below
	until, cancel := context.WithTimeout(ctx, warmFor)
	defer cancel()
	next := w.walk(ctx, until, at)
	w.running.Wait()
	done := batch.Warmed{Next: next, Chunks: int(w.chunks.Load()), Bytes: w.bytes.Load(), Full: w.full.Load()}
	if err := w.failed.Load(); err != nil {
		return done, *err
	}
	return done, context.Cause(ctx)
}

// walk starts the reads, and returns the position to continue from.
func (w *warming) walk(ctx, until context.Context, at shuffle.Cursor) uint64 {
	s := w.source
	for span := range s.inOrder(at) {
		if s.name != "" && s.owner(int(span.Chunk)) != "" {
			continue // its owner loads it
		}
		if !w.begin(ctx, until, int(span.Chunk)) {
			return max(span.From, at.First)
		}
	}
	return at.Plan.Samples()
}

// inOrder yields the chunks that the epoch needs from a position on. An order without locality
// needs all chunks equally, so they are yielded in stored order.
func (s *Source) inOrder(at shuffle.Cursor) iter.Seq[shuffle.Span] {
	if at.Epoch.Local() {
		return at.Epoch.Spans(at.First)
	}
	return func(yield func(shuffle.Span) bool) {
		for c := range s.index.Chunks() {
			desc := s.index.Chunk(c)
			if desc.First+uint64(desc.Samples) > at.First && !yield(shuffle.Span{Chunk: uint64(c), From: desc.First}) {
				return
			}
		}
	}
}

// warmRoom returns how many bytes of memory may be filled for s, in addition to chunks that readers
// need.
func (p *Path) warmRoom(s *Source) int64 {
	room := policy.Ahead(p.budget.Total())
	for o, chunk := range p.inMemory() {
		if o == s || p.readers.NextUse(o, chunk).In != lookahead.Never {
			room -= o.Cost(chunk)
		}
	}
	return room
}

// warming is one call of Warm.
type warming struct {
	source  *Source
	room    int64 // bytes of memory left to fill
	passing int64 // bytes of memory for chunks that are being written to disk
	running sync.WaitGroup

	chunks atomic.Int64
	bytes  atomic.Int64
	full   atomic.Bool           // memory is full, and the disk if there is one
	failed atomic.Pointer[error] // the first error
}

// begin starts to load a chunk that is in no tier, unless the time is up. It reports whether to
// continue with the next chunk.
func (w *warming) begin(ctx, until context.Context, chunk int) bool {
	s := w.source
	cost := s.Cost(chunk)
	if s.finds(chunk) || cost > w.room && s.isOnDisk(chunk) {
		return true
	}
	if w.failed.Load() != nil || until.Err() != nil || s.path.gate.enterWarm(until) != nil {
		return false
	}
	if cost <= w.room && w.bring(ctx, chunk, true) {
		w.room -= cost
		return true
	}
	if s.onDisk && !w.full.Load() && w.toDisk(ctx, chunk) {
		w.room = 0 // memory is full: chunks already on disk stay on disk only
		return true
	}
	s.path.gate.leaveWarm(false)
	w.full.Store(true)
	return false
}

// toDisk starts to load a chunk to disk. Such a chunk leaves memory once it is written. It does not
// use the memory of chunks that readers need, since those may not be on disk yet.
func (w *warming) toDisk(ctx context.Context, chunk int) bool {
	total := w.source.path.budget.Total()
	for range 2 {
		if w.passing < total-policy.Ahead(total) && w.bring(ctx, chunk, false) {
			w.passing += w.source.Cost(chunk)
			return true
		}
		w.running.Wait()
		w.passing = 0
	}
	return false
}

// bring starts a read of a chunk, for which the caller has taken a place, and reports whether there
// was room for it. The chunk is written to disk if there is one. This applies even if the chunk
// stays in memory, since it may be evicted before its reader arrives.
func (w *warming) bring(ctx context.Context, chunk int, stays bool) bool {
	s := w.source
	f := &fetch{load: load{source: s, held: s.path.gate, toDisk: s.onDisk}, chunks: []int{chunk}}
	request := f.request()
	if !stays {
		request.Due = chunkcache.Soon // the chunk stays in memory only until it is written
	}
	wait, err := s.path.cache.Start(ctx, request)
	if errors.Is(err, chunkcache.ErrNoRoom) {
		return false
	}
	w.running.Go(func() {
		var l *chunkcache.Leases[key]
		if err == nil {
			l, err = wait()
		}
		defer func() { s.path.gate.leaveWarm(err != nil) }()
		if err != nil {
			w.failed.CompareAndSwap(nil, &err)
			return
		}
		defer l.Close()
		if f.toDisk && !s.write(ctx, chunk, l.Bytes(0)) && !stays {
			w.full.Store(true)
		}
		w.chunks.Add(1)
		w.bytes.Add(s.index.Length(chunk))
	})
	return true
}
