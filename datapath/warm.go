package datapath

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/datapath/chunkcache"
	"github.com/millrace-data/millrace/datapath/lookahead"
	"github.com/millrace-data/millrace/shuffle"
)

// warmFor is for how long one call of Warm begins new reads.
const warmFor = time.Second

// Warm brings what an epoch needs from position at.First on, in order of need, before anybody reads it: into memory as
// far as that may be used for what readers come for, then to the tiers behind it. It begins reads for about a second,
// and says where to go on. What is there already costs nothing, so that a call that was lost can be repeated. Errors
// are those of Read; what was brought before stays.
func (s *Source) Warm(ctx context.Context, at shuffle.Cursor) (chunkindex.Warmed, error) {
	if err := context.Cause(ctx); err != nil {
		return chunkindex.Warmed{}, err
	}
	s.path.reown()
	s.path.readers.Announce(s, at, time.Now())
	w := &warming{source: s, until: time.Now().Add(warmFor), room: s.path.warmRoom(s)}
	defer w.running.Wait() // also if something below panics
	next := s.warm(ctx, at, w)
	w.running.Wait()
	w.done.Next = next
	if w.err != nil {
		return w.done, w.err
	}
	return w.done, context.Cause(ctx)
}

// warm starts the reads, and returns the position to go on from.
func (s *Source) warm(ctx context.Context, at shuffle.Cursor, w *warming) uint64 {
	begun := map[uint64]bool{}
	for span := range s.inOrder(at) {
		if begun[span.Chunk] {
			continue
		}
		begun[span.Chunk] = true
		if s.name != "" && s.owner(int(span.Chunk)) != "" {
			continue // whoever is to hold it brings it
		}
		if !w.begin(ctx, int(span.Chunk)) {
			return max(span.From, at.First)
		}
	}
	return at.Plan.Samples()
}

// inOrder yields what the epoch needs from a position on. An order without locality needs all chunks alike: as stored.
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

// warmRoom is how many bytes of memory may be filled for s beside what somebody comes for already.
func (p *Path) warmRoom(s *Source) int64 {
	room := ahead(p.budget.Total())
	for _, n := range p.cache.Names() {
		if o := n.Owner.(*Source); o == s || p.readers.Due(o, n.Chunk) != lookahead.Never {
			room -= o.Cost(n.Chunk)
		}
	}
	return room
}

// warming is one call of Warm.
type warming struct {
	source  *Source
	until   time.Time
	room    int64 // bytes of memory left
	passing int64 // bytes of memory for chunks on their way to disk
	running sync.WaitGroup

	mu   sync.Mutex // guards what follows
	done chunkindex.Warmed
	err  error // the first one
}

// begin starts to bring a chunk that is in no tier, and reports whether the call goes on to the next one.
func (w *warming) begin(ctx context.Context, chunk int) bool {
	s := w.source
	cost := s.Cost(chunk)
	if s.Resident(chunk) || cost > w.room && s.isOnDisk(chunk) {
		return true
	}
	if w.failed() || ctx.Err() != nil || !time.Now().Before(w.until) {
		return false
	}
	wait, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	if s.path.gate.enterWarm(wait) != nil {
		return false
	}
	if cost <= w.room && w.bring(ctx, chunk, true) {
		w.room -= cost
		return true
	}
	if s.onDisk && !w.full() && w.toDisk(ctx, chunk) {
		w.room = 0 // memory is full: what is on disk already stays there
		return true
	}
	s.path.gate.leaveWarm(false)
	w.noRoom()
	return false
}

// toDisk starts to bring a chunk to disk. Those on their way there leave room in memory when they have arrived, and
// take none of what readers come for: that may not be on disk yet.
func (w *warming) toDisk(ctx context.Context, chunk int) bool {
	total, cost := w.source.path.budget.Total(), w.source.Cost(chunk)
	if w.passing += cost; w.passing > total-ahead(total) {
		w.running.Wait()
		w.passing = cost
	}
	if w.bring(ctx, chunk, false) {
		return true
	}
	w.running.Wait()
	return w.bring(ctx, chunk, false)
}

// bring starts a read of a chunk, for which the caller has taken a place, and reports whether there was room for it. It is
// written to disk where there is one: also a chunk that stays in memory, for it may have to leave before its reader comes.
func (w *warming) bring(ctx context.Context, chunk int, stays bool) bool {
	f := &fetch{source: w.source, held: w.source.path.gate, toDisk: w.source.onDisk}
	f.want([]int{chunk})
	request := f.request()
	if !stays {
		request.Due = nil // it only passes through memory
	}
	wait, err := w.source.path.cache.Start(ctx, request)
	if errors.Is(err, chunkcache.ErrNoRoom) {
		return false
	}
	w.running.Go(func() {
		if err == nil {
			var l *chunkcache.Leases[key]
			if l, err = wait(); err == nil {
				if f.toDisk && !w.source.write(chunk, l.Bytes(0)) && !stays {
					w.noRoom()
				}
				l.Close()
			}
		}
		w.source.path.gate.leaveWarm(err != nil)
		w.ended(w.source.index.Chunk(chunk).Length, err)
	})
	return true
}

// ended notes that a chunk is there, or will not come.
func (w *warming) ended(bytes int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.done.Chunks++
		w.done.Bytes += bytes
	case w.err == nil:
		w.err = err
	}
}

// noRoom notes that the disk takes no more.
func (w *warming) noRoom() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.Full = true
}

func (w *warming) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.Full
}

func (w *warming) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil
}
