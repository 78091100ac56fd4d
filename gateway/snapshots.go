package gateway

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/millrace-data/millrace/shuffle"
)

// maxIdleSnapshots are kept open although nobody uses them.
const maxIdleSnapshots = 2

// snapshots opens each object that plans are made with, a snapshot of weights, a subset or a quarantine, once for all requests that
// use it at a time, and keeps the ones used last.
type snapshots[V io.Closer] struct {
	what    string // it is, for errors
	size    func(key snapshotKey) int64
	open    func(ctx context.Context, key snapshotKey) (V, error)
	reserve func(ctx context.Context, n int64) (reservation, error)
	held    func(V) int64 // what is left of it once it is open; nil: all
	loads   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	byKey map[snapshotKey]*snapshotEntry[V]
	idle  *list.List // of *snapshotEntry that nobody uses, last used first
}

type snapshotKey struct {
	dataset *dataset
	name    string
	params  shuffle.Params // that it is made for: of a quarantine
}

// snapshotEntry is opened by the first who asks, on behalf of all who wait: it is given up when the last of them has left.
type snapshotEntry[V io.Closer] struct {
	key    snapshotKey
	done   chan struct{} // closed once what follows is set
	value  V
	memory reservation
	err    error
	cancel context.CancelFunc

	// Guarded by snapshots.mu:
	users int
	place *list.Element // in idle
}

func newSnapshots[V io.Closer](
	what string, size func(snapshotKey) int64, open func(context.Context, snapshotKey) (V, error), reserve func(context.Context, int64) (reservation, error),
) *snapshots[V] {
	return &snapshots[V]{what: what, size: size, open: open, reserve: reserve, byKey: map[snapshotKey]*snapshotEntry[V]{}, idle: list.New()}
}

// acquire opens what key names, or waits for who does. Whoever asked must leave.
func (s *snapshots[V]) acquire(ctx context.Context, key snapshotKey) (_ V, leave func(), err error) {
	var none V
	e := s.enter(ctx, key)
	select {
	case <-e.done:
	case <-ctx.Done():
		s.leave(e)
		return none, nil, fmt.Errorf("open %s %s: %w", s.what, key.name, context.Cause(ctx))
	}
	if e.err != nil {
		s.leave(e)
		return none, nil, e.err
	}
	return e.value, func() { s.leave(e) }, nil
}

// opened returns what is open already, as acquire does.
func (s *snapshots[V]) opened(key snapshotKey) (v V, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil || !e.opened() {
		return v, func() {}, false
	}
	s.use(e)
	return e.value, func() { s.leave(e) }, true
}

// use counts one more user of an entry. The caller holds mu.
func (s *snapshots[V]) use(e *snapshotEntry[V]) {
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	e.users++
}

func (s *snapshots[V]) enter(ctx context.Context, key snapshotKey) *snapshotEntry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e = &snapshotEntry[V]{key: key, done: make(chan struct{}), err: errUnprepared, cancel: cancel}
		s.byKey[key] = e
		s.loads.Go(func() { s.load(loading, e) })
	}
	s.use(e)
	return e
}

// load opens what an entry is to hold. Its memory is on the books before it is opened. A panic ends this attempt alone: no
// handler stands above it.
func (s *snapshots[V]) load(ctx context.Context, e *snapshotEntry[V]) {
	defer e.cancel()
	defer close(e.done)
	memory, err := s.reserve(ctx, s.size(e.key))
	if err != nil {
		e.err = fmt.Errorf("open %s %s: %w", s.what, e.key.name, err)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			e.err = fmt.Errorf("open %s %s: panic: %v\n%s", s.what, e.key.name, v, debug.Stack())
		}
		if e.err != nil {
			memory.Release()
		}
	}()
	e.memory = memory
	if e.value, e.err = s.open(ctx, e.key); e.err == nil && s.held != nil {
		memory.Shrink(s.held(e.value))
	}
}

// leave ends one use. What could not be opened is tried anew by who asks next.
func (s *snapshots[V]) leave(e *snapshotEntry[V]) {
	for _, old := range s.drop(e) {
		_ = old.end() // a file that was only read
	}
}

// drop takes one user off an entry, and returns the entries that are no longer kept.
func (s *snapshots[V]) drop(e *snapshotEntry[V]) (old []*snapshotEntry[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 {
		return nil
	}
	if !e.opened() {
		delete(s.byKey, e.key)
		return []*snapshotEntry[V]{e}
	}
	e.place = s.idle.PushFront(e)
	return s.shrink(maxIdleSnapshots)
}

// shrink takes out the entries that were idle longest, but for so many. The caller holds mu.
func (s *snapshots[V]) shrink(most int) (old []*snapshotEntry[V]) {
	for s.idle.Len() > most {
		last := s.idle.Remove(s.idle.Back()).(*snapshotEntry[V])
		delete(s.byKey, last.key)
		old = append(old, last)
	}
	return old
}

// close closes what is open, once nobody uses it any more.
func (s *snapshots[V]) close() error {
	s.mu.Lock()
	old := s.shrink(0)
	s.mu.Unlock()
	var faults []error
	for _, e := range old {
		faults = append(faults, e.end())
	}
	s.loads.Wait()
	return errors.Join(faults...)
}

// opened says whether the snapshot is there: not before it was tried, and not if that failed.
func (e *snapshotEntry[V]) opened() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// end gives up an attempt to open, or closes what is open. Nobody uses the entry any more.
func (e *snapshotEntry[V]) end() error {
	e.cancel()
	<-e.done
	if e.err != nil {
		return nil // its users were told
	}
	e.memory.Release()
	if err := e.value.Close(); err != nil {
		return fmt.Errorf("close %s: %w", e.key.name, err)
	}
	return nil
}
