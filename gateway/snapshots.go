package gateway

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/millrace-data/millrace/importance"
)

// maxIdleSnapshots are kept open although nobody uses them.
const maxIdleSnapshots = 2

// snapshots opens each snapshot of weights once for all requests that use it at a time, and keeps the ones used last.
type snapshots struct {
	reserve func(ctx context.Context, n int64) (release func(), err error)
	loads   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	byKey map[snapshotKey]*snapshotEntry
	idle  *list.List // of *snapshotEntry that nobody uses, last used first
}

type snapshotKey struct {
	dataset *dataset
	name    string
}

// snapshotEntry is opened by the first who asks, on behalf of all who wait: it is given up when the last of them has left.
type snapshotEntry struct {
	key    snapshotKey
	done   chan struct{} // closed once what follows is set
	weigh  *weights
	err    error
	cancel context.CancelFunc

	// Guarded by snapshots.mu:
	users int
	place *list.Element // in idle
}

// weights is an open snapshot.
type weights struct {
	*importance.Snapshot
	release func() // of its memory
}

func newSnapshots(reserve func(context.Context, int64) (func(), error)) *snapshots {
	return &snapshots{reserve: reserve, byKey: map[snapshotKey]*snapshotEntry{}, idle: list.New()}
}

// acquire opens a snapshot of a dataset, or waits for who does. Whoever asked must leave.
func (s *snapshots) acquire(ctx context.Context, d *dataset, name string) (_ *weights, leave func(), err error) {
	e := s.enter(ctx, snapshotKey{d, name})
	select {
	case <-e.done:
	case <-ctx.Done():
		s.leave(e)
		return nil, nil, fmt.Errorf("open snapshot %s: %w", name, context.Cause(ctx))
	}
	if e.err != nil {
		s.leave(e)
		return nil, nil, e.err
	}
	return e.weigh, func() { s.leave(e) }, nil
}

// opened returns a snapshot that is open already, as acquire does; nil if it is not.
func (s *snapshots) opened(key snapshotKey) (_ *weights, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil || !e.opened() {
		return nil, func() {}
	}
	s.use(e)
	return e.weigh, func() { s.leave(e) }
}

// use counts one more user of an entry. The caller holds mu.
func (s *snapshots) use(e *snapshotEntry) {
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	e.users++
}

func (s *snapshots) enter(ctx context.Context, key snapshotKey) *snapshotEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e = &snapshotEntry{key: key, done: make(chan struct{}), err: errUnprepared, cancel: cancel}
		s.byKey[key] = e
		s.loads.Go(func() { s.load(loading, e) })
	}
	s.use(e)
	return e
}

// load opens the snapshot of an entry. Its memory is on the books before it is opened. A panic ends this attempt alone: no
// handler stands above it.
func (s *snapshots) load(ctx context.Context, e *snapshotEntry) {
	defer e.cancel()
	defer close(e.done)
	d := e.key.dataset
	release, err := s.reserve(ctx, d.snapshotBytes())
	if err != nil {
		e.err = fmt.Errorf("open snapshot %s: %w", e.key.name, err)
		return
	}
	defer func() {
		if v := recover(); v != nil {
			e.err = fmt.Errorf("open snapshot %s: panic: %v\n%s", e.key.name, v, debug.Stack())
		}
		if e.err != nil {
			release()
		}
	}()
	snapshot, err := d.Importance.Open(ctx, e.key.name, d.Index.Generation(), d.Index.First())
	if err != nil {
		e.err = importanceProblem(d, err)
		return
	}
	e.weigh, e.err = &weights{snapshot, release}, nil
}

// leave ends one use. What could not be opened is tried anew by who asks next.
func (s *snapshots) leave(e *snapshotEntry) {
	for _, old := range s.drop(e) {
		_ = old.end() // a file that was only read
	}
}

// drop takes one user off an entry, and returns the entries that are no longer kept.
func (s *snapshots) drop(e *snapshotEntry) (old []*snapshotEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 {
		return nil
	}
	if !e.opened() {
		delete(s.byKey, e.key)
		return []*snapshotEntry{e}
	}
	e.place = s.idle.PushFront(e)
	return s.shrink(maxIdleSnapshots)
}

// shrink takes out the entries that were idle longest, but for so many. The caller holds mu.
func (s *snapshots) shrink(most int) (old []*snapshotEntry) {
	for s.idle.Len() > most {
		last := s.idle.Remove(s.idle.Back()).(*snapshotEntry)
		delete(s.byKey, last.key)
		old = append(old, last)
	}
	return old
}

// close closes what is open, once nobody uses it any more.
func (s *snapshots) close() error {
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
func (e *snapshotEntry) opened() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// end gives up an attempt to open, or closes what is open. Nobody uses the entry any more.
func (e *snapshotEntry) end() error {
	e.cancel()
	<-e.done
	if e.err != nil {
		return nil // its users were told
	}
	e.weigh.release()
	if err := e.weigh.Close(); err != nil {
		return fmt.Errorf("close snapshot %s: %w", e.key.name, err)
	}
	return nil
}
