package plans

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

// maxIdle is the number of unused objects that stay open. The next epoch of a job usually needs the
// same objects.
const maxIdle = 2

// maxIdleSubsets is maxIdle for subsets, if they use no more memory than the limit of prepared
// epochs. A mixture has one subset per source, at most 64, and computing one may take seconds.
const maxIdleSubsets = 64

// objectCache keeps snapshots of weights, subsets or quarantines open. Concurrent requests share
// one open object, and the most recently used ones stay open.
type objectCache[V io.Closer] struct {
	what    string // kind of the objects, for errors
	size    func(key objectKey) int64
	open    func(ctx context.Context, key objectKey) (V, error)
	reserve func(ctx context.Context, n int64) (Reservation, error)
	held    func(V) int64 // memory of an open object; nil: the same as to open it
	roomy   func() int64  // bytes that idle objects beyond maxIdle may use; nil: at most maxIdle stay open
	loads   sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	byKey map[objectKey]*objectEntry[V]
	idle  *list.List // unused *objectEntry, most recently used first
}

type objectKey struct {
	dataset *Dataset
	name    string
	params  shuffle.Params // parameters of plans that use a quarantine
}

// objectEntry is an object that is opened once for all requests that wait for it. Opening is
// canceled when the last waiting request leaves.
type objectEntry[V io.Closer] struct {
	key    objectKey
	done   chan struct{} // closed when the fields below are set
	value  V
	memory Reservation
	err    error
	cancel context.CancelFunc

	// Guarded by objectCache.mu:
	users int
	place *list.Element // element in idle
}

func newObjectCache[V io.Closer](
	what string, size func(objectKey) int64, open func(context.Context, objectKey) (V, error), reserve func(context.Context, int64) (Reservation, error),
) *objectCache[V] {
	return &objectCache[V]{what: what, size: size, open: open, reserve: reserve, byKey: map[objectKey]*objectEntry[V]{}, idle: list.New()}
}

// acquire opens the object of a key, or waits for another request that opens it. The caller must
// call leave.
func (s *objectCache[V]) acquire(ctx context.Context, key objectKey) (_ V, leave func(), err error) {
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

// find acquires an object that is already open. ok is false if it is not open.
func (s *objectCache[V]) find(key objectKey) (v V, leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil || !e.isOpen() {
		return v, func() {}, false
	}
	s.use(e)
	return e.value, func() { s.leave(e) }, true
}

// use adds a user to an entry. The caller holds mu.
func (s *objectCache[V]) use(e *objectEntry[V]) {
	if e.place != nil {
		s.idle.Remove(e.place)
		e.place = nil
	}
	e.users++
}

func (s *objectCache[V]) enter(ctx context.Context, key objectKey) *objectEntry[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byKey[key]
	if e == nil {
		loading, cancel := context.WithCancel(context.WithoutCancel(ctx))
		e = &objectEntry[V]{key: key, done: make(chan struct{}), err: errUnprepared, cancel: cancel}
		s.byKey[key] = e
		s.loads.Go(func() { s.load(loading, e) })
	}
	s.use(e)
	return e
}

// load reserves memory for the object of an entry, and opens it. It recovers from a panic, because
// it runs in its own goroutine.
func (s *objectCache[V]) load(ctx context.Context, e *objectEntry[V]) {
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

// leave ends one use. After a failure to open, the next request tries again.
func (s *objectCache[V]) leave(e *objectEntry[V]) {
	for _, old := range s.drop(e) {
		_ = old.end() // closing a file that was only read
	}
}

// drop removes one user of an entry, and returns the entries to close.
func (s *objectCache[V]) drop(e *objectEntry[V]) (old []*objectEntry[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.users--; e.users > 0 {
		return nil
	}
	if !e.isOpen() {
		delete(s.byKey, e.key)
		return []*objectEntry[V]{e}
	}
	e.place = s.idle.PushFront(e)
	return s.shrink(s.most())
}

// most returns the number of idle objects to keep. The caller holds mu.
func (s *objectCache[V]) most() int {
	if s.roomy == nil {
		return maxIdle
	}
	n, left := 0, s.roomy()
	for at := s.idle.Front(); at != nil && n < maxIdleSubsets; at = at.Next() {
		if left -= s.held(at.Value.(*objectEntry[V]).value); left < 0 && n >= maxIdle {
			break
		}
		n++
	}
	return n
}

// shrink removes the least recently used entries until at most most are left. The caller holds mu.
func (s *objectCache[V]) shrink(most int) (old []*objectEntry[V]) {
	for s.idle.Len() > most {
		last := s.idle.Remove(s.idle.Back()).(*objectEntry[V])
		delete(s.byKey, last.key)
		old = append(old, last)
	}
	return old
}

// close closes the idle objects. No request may use an object.
func (s *objectCache[V]) close() error {
	s.mu.Lock()
	old := s.shrink(0)
	s.mu.Unlock()
	err := endAll(old)
	s.loads.Wait()
	return err
}

// forget closes the idle objects of a dataset. No request may use an object of the dataset.
func (s *objectCache[V]) forget(d *Dataset) error {
	s.mu.Lock()
	var old []*objectEntry[V]
	for key, e := range s.byKey {
		if key.dataset == d && e.place != nil {
			s.idle.Remove(e.place)
			delete(s.byKey, key)
			old = append(old, e)
		}
	}
	s.mu.Unlock()
	return endAll(old)
}

func endAll[V io.Closer](old []*objectEntry[V]) error {
	var faults []error
	for _, e := range old {
		faults = append(faults, e.end())
	}
	return errors.Join(faults...)
}

// isOpen reports whether opening has succeeded.
func (e *objectEntry[V]) isOpen() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// end cancels an attempt to open, or closes an open object. No request uses the entry any more.
func (e *objectEntry[V]) end() error {
	e.cancel()
	<-e.done
	if e.err != nil {
		return nil // its users have received the error
	}
	e.memory.Release()
	if err := e.value.Close(); err != nil {
		return fmt.Errorf("close %s: %w", e.key.name, err)
	}
	return nil
}
