// This file closes a source: it counts the uses of a source, and releases its chunks after the last
// one.

package datapath

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-data/millrace/datapath/batch"
	"github.com/millrace-data/millrace/datapath/diskcache"
)

// ErrClosed reports that a source is closed.
var ErrClosed = errors.New("the dataset is closed")

// uses counts the uses of a source.
type uses struct {
	open    atomic.Int64            // current uses; Close adds closed, so that it is below 0 from then on
	once    sync.Once               // runs Close once
	closing context.Context         // context that ends when Close is called
	end     context.CancelCauseFunc // ends closing
	ended   chan struct{}           // closed when the last use after Close ends
	leave   func()                  // Source.leave as a function value, made once to save an allocation for each request
}

// closed is added to the number of open uses by Close.
const closed = math.MinInt64

func newUses() *uses {
	u := &uses{ended: make(chan struct{})}
	u.closing, u.end = context.WithCancelCause(context.Background())
	return u
}

// enter begins a use of the source, which ends with leave. It returns false after Close was called.
// The index stays open during a use. A use may begin within another one; it is refused if Close was
// called in between.
func (s *Source) enter() bool {
	for {
		n := s.uses.open.Load()
		if n < 0 {
			return false
		}
		if s.uses.open.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave ends a use.
func (s *Source) leave() {
	if s.uses.open.Add(-1) == closed {
		close(s.uses.ended)
	}
}

// leaveAfter ends a use when the body is closed, or immediately if err is not nil.
func leaveAfter(leave func(), body *batch.Body, err error) (*batch.Body, error) {
	if err != nil {
		leave()
		return nil, err
	}
	body.OnClose(leave)
	return body, nil
}

// until returns a context that ends with ctx or when Close is called.
func (s *Source) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.uses.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// Close ends the source. It cancels prefetches, answers to peers and calls of Warm, and waits until
// these have ended. It also waits for calls of Read, for open bodies, and for loads that other
// sources wait for. Then the path frees the memory of the source, except chunks that another open
// source also has. After Close the path does not use the index, and calls return ErrClosed. Chunks
// on disk stay there.
func (s *Source) Close() { s.uses.once.Do(s.close) }

func (s *Source) close() {
	p := s.path
	p.mu.Lock()
	p.open = slices.DeleteFunc(p.open, func(o *Source) bool { return o == s })
	p.mu.Unlock()
	s.uses.end(ErrClosed)
	if s.uses.open.Add(closed) != closed {
		<-s.uses.ended
	}
	p.ahead.forget(func(r *rank) bool { return r.source == s })
	p.readers.Drop(s)
	s.handOver()
	p.cache.Close(s.chunks)
	p.hot.forget(s)
	p.sizeDecoding()
	p.decoding.fit()
	p.look()
}

// handOver registers the chunks of this source, in memory and on disk, with the other sources that
// have the same chunks.
func (s *Source) handOver() {
	p := s.path
	chunks, files := map[key]bool{}, map[diskcache.Key]bool{}
	for i := range s.index.Chunks() {
		if s.number == 0 && s.chunks.Contains(i) {
			chunks[s.key(i)] = true
		}
		if s.onDisk && p.disk.cache.Disown(s.diskKey(i), s.ref(i)) {
			files[s.diskKey(i)] = true
		}
	}
	p.mu.Lock()
	others := map[*Source]bool{} // true: the chunks of the source may be on disk
	for _, o := range p.open {
		others[o] = o.onDisk
	}
	p.mu.Unlock()
	for o, onDisk := range others {
		if o.enter() {
			o.takeOver(chunks, files, onDisk)
			o.leave()
		}
	}
}

// takeOver registers those of the given chunks and files that the source also has.
func (s *Source) takeOver(chunks map[key]bool, files map[diskcache.Key]bool, onDisk bool) {
	if len(chunks) == 0 && (!onDisk || len(files) == 0) {
		return
	}
	for i := range s.index.Chunks() {
		if chunks[s.key(i)] {
			s.path.cache.Find(s.chunks, i)
		}
		if onDisk && files[s.diskKey(i)] {
			s.path.disk.cache.Adopt(s.diskKey(i), s.ref(i))
		}
	}
}

// inMemory yields the chunks in memory or being loaded, each for one of the sources that have it.
// The source stays in use while the chunk is yielded.
func (p *Path) inMemory() iter.Seq2[*Source, int] {
	return func(yield func(*Source, int) bool) {
		for _, n := range p.cache.Names() {
			s := n.Owner.(*Source)
			if !s.enter() {
				continue
			}
			ok := yield(s, n.Chunk)
			s.leave()
			if !ok {
				return
			}
		}
	}
}
