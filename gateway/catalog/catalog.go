// Package catalog manages the served datasets: by name, with the open generations of each. One
// generation of a name is current and is used by default. Others are opened on demand. Generations
// that are not current are closed after a time without use, and never while in use.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

const (
	rest      = time.Minute      // idle time after which a generation that is not current is closed
	sweeps    = 10 * time.Second // interval of the search for entries to close
	grace     = 10 * time.Minute // maximum time for which a removed dataset is still served to its users
	goneFor   = 10 * time.Second // time for which an error of opening a generation is cached
	failedFor = time.Second      // the same after an error of the store
	maxGone   = 1024             // maximum cached errors
	openLimit = time.Minute      // timeout for opening a generation
)

// ErrUnknown is returned for a name or generation that is not served.
var ErrUnknown = errors.New("name not served")

// Entry is one generation of a dataset.
type Entry[E any] interface {
	comparable
	Key() (name, generation string)
	Needs() []E // entries that this entry depends on, which stay open as long as it does
	Close()     // called once, when the entry is no longer in use
}

// Opener opens a generation of a served name.
type Opener[E any] func(ctx context.Context, name, generation string) (E, error)

// Catalog holds the served entries. It is safe for concurrent use.
type Catalog[E Entry[E]] struct {
	open    Opener[E]          // nil: only current generations are served
	passing func(error) bool   // reports whether an error of open may be temporary
	opening singleflight.Group // deduplicates calls of open by key

	mu      sync.Mutex      // guards the fields below
	current []E             // in the order of Set
	old     []*openEntry[E] // entries replaced by another entry with the same name and generation
	byName  map[string]*openEntry[E]
	byKey   map[key]*openEntry[E]
	gone    map[key]failure
	turns   map[string]*semaphore.Weighted // by name, held while a generation is opened
	timer   *time.Timer                    // timer of the next sweep; nil: none
}

type key struct{ name, generation string }

// begins reports whether k has the name of another key, and its generation or the beginning of it.
func (k key) begins(of key) bool {
	return k.name == of.name && strings.HasPrefix(of.generation, k.generation)
}

func keyOf[E Entry[E]](e E) (k key) {
	k.name, k.generation = e.Key()
	return k
}

// openEntry is an open generation with its users.
type openEntry[E Entry[E]] struct {
	entry   E
	needs   []*openEntry[E] // one use of each needed entry
	release func()          // ends one use of the entry
	users   int
	used    time.Time // end of the last use
	current bool
	removed time.Time // when its name was removed; zero: it is served
}

// failure is a cached error of opening a generation.
type failure struct {
	err   error
	until time.Time
}

// New returns an empty catalog. Errors for which passing returns true are cached for a shorter
// time.
func New[E Entry[E]](open Opener[E], passing func(error) bool) *Catalog[E] {
	return &Catalog[E]{
		open: open, passing: passing, byName: map[string]*openEntry[E]{}, byKey: map[key]*openEntry[E]{}, gone: map[key]failure{}, turns: map[string]*semaphore.Weighted{},
	}
}

// Set replaces the current entries, the default first. Entries that are no longer current stay open
// for their users: as older generations if their name is still served, otherwise for at most the
// grace time. An entry replaces an open one with the same name and generation, which also stays
// open for its users.
func (c *Catalog[E]) Set(entries []E) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.byKey {
		h.current = false
	}
	c.current = make([]E, 0, len(entries))
	for _, e := range entries {
		h := c.byKey[keyOf(e)]
		if h == nil || h.entry != e {
			if h != nil {
				c.old = append(c.old, h)
				c.later()
			}
			h = c.hold(e)
		}
		h.used, h.current = now, true
		name, _ := e.Key()
		c.byName[name] = h
		c.current = append(c.current, h.entry)
	}
	for k, h := range c.byKey {
		switch of := c.byName[k.name]; {
		case of != nil && of.current:
			h.removed = time.Time{}
		case h.removed.IsZero():
			h.removed = now
		}
		if !h.current {
			c.later()
		}
	}
}

// hold adds an entry. The caller holds mu.
func (c *Catalog[E]) hold(e E) *openEntry[E] {
	k := keyOf(e)
	delete(c.gone, k)
	h := &openEntry[E]{entry: e}
	h.release = func() { c.release(h) }
	c.byKey[k] = h
	for _, need := range e.Needs() {
		if of := c.byKey[keyOf(need)]; of != nil {
			of.users++
			h.needs = append(h.needs, of)
		}
	}
	return h
}

// All returns the current entries, the default first.
func (c *Catalog[E]) All() []E {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Current returns the current entry of a name.
func (c *Catalog[E]) Current(name string) (e E, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.byName[name]; h != nil {
		return h.entry, true
	}
	return e, false
}

// Find returns an open entry and resets its idle time.
func (c *Catalog[E]) Find(name, generation string) (e E, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.byKey[key{name, generation}]
	if h == nil {
		return e, false
	}
	h.used = time.Now()
	if !h.removed.IsZero() {
		h.removed = h.used
	}
	return h.entry, true
}

// Generations returns the open generations of a name, the current one first.
func (c *Catalog[E]) Generations(name string) []E {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []E
	for k, h := range c.byKey {
		if k.name == name {
			all = append(all, h.entry)
		}
	}
	slices.SortFunc(all, func(a, b E) int {
		switch first := c.byName[name]; {
		case first != nil && a == first.entry:
			return -1
		case first != nil && b == first.entry:
			return 1
		}
		return cmp.Compare(keyOf(a).generation, keyOf(b).generation)
	})
	return all
}

// Acquire returns a generation of a name, by default the current one. The first digits of a generation
// also select it. Acquire opens a generation that is not open. The caller must call release once when
// it has finished with the entry.
func (c *Catalog[E]) Acquire(ctx context.Context, name, generation string) (e E, release func(), err error) {
	e, release, ok, err := c.acquireOpen(name, generation)
	if ok || err != nil {
		return e, release, err
	}
	k := key{name, generation}
	came := c.opening.DoChan(name+" "+generation, func() (any, error) { return nil, c.bring(context.WithoutCancel(ctx), k) })
	select {
	case r := <-came:
		if r.Err != nil {
			return e, nil, r.Err
		}
	case <-ctx.Done():
		return e, nil, fmt.Errorf("open generation %.12s of %s: %w", generation, name, context.Cause(ctx))
	}
	e, release, ok, err = c.acquireOpen(name, generation)
	if !ok && err == nil {
		err = ErrUnknown // removed meanwhile
	}
	return e, release, err
}

// AcquireOpen acquires a generation like Acquire, but opens none. ok is false if the generation is
// not open.
func (c *Catalog[E]) AcquireOpen(name, generation string) (e E, release func(), ok bool) {
	e, release, ok, _ = c.acquireOpen(name, generation)
	return e, release, ok
}

// acquireOpen acquires a generation that is already open. If ok is false and err is nil, the
// generation may be opened; otherwise err is the reason why it is not available.
func (c *Catalog[E]) acquireOpen(name, generation string) (e E, release func(), ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.byName[name]
	if h == nil || !h.removed.IsZero() && time.Since(h.removed) >= grace {
		return e, nil, false, ErrUnknown
	}
	if k := (key{name, generation}); !k.begins(keyOf(h.entry)) {
		if h = c.find(k); h == nil {
			if f, failed := c.gone[k]; failed && time.Now().Before(f.until) {
				err = f.err
			} else if c.open == nil {
				err = ErrUnknown
			}
			return e, nil, false, err
		}
	}
	h.users++
	return h.entry, h.release, true, nil
}

// find returns an open entry by the beginning of its generation, or nil. The caller holds mu.
func (c *Catalog[E]) find(k key) *openEntry[E] {
	if h := c.byKey[k]; h != nil {
		return h
	}
	for of, h := range c.byKey {
		if k.begins(of) {
			return h
		}
	}
	return nil
}

func (c *Catalog[E]) release(h *openEntry[E]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(h, time.Now())
}

// leave ends one use of an entry. The caller holds mu.
func (c *Catalog[E]) leave(h *openEntry[E], now time.Time) {
	if h.users--; h.users == 0 && !h.current {
		if now.After(h.used) {
			h.used = now
		}
		c.later()
	}
}

// turn returns the lock of a name, for opening one generation at a time. Requests for invented
// generations therefore cost one store request at a time, and a hanging store blocks only its own
// datasets.
func (c *Catalog[E]) turn(name string) *semaphore.Weighted {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turns[name] == nil {
		c.turns[name] = semaphore.NewWeighted(1)
	}
	return c.turns[name]
}

// bring opens a generation for all waiting callers.
func (c *Catalog[E]) bring(ctx context.Context, k key) error {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	turn := c.turn(k.name)
	if err := turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer turn.Release(1)
	e, err := c.open(ctx, k.name, k.generation)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if len(c.gone) >= maxGone {
			clear(c.gone)
		}
		until := now.Add(goneFor)
		if c.passing(err) {
			until = now.Add(failedFor)
		}
		c.gone[k] = failure{err, until}
		return err
	}
	if c.byKey[keyOf(e)] != nil { // it has become current, or was opened by its whole name, meanwhile
		go e.Close()
		return nil
	}
	h := c.hold(e)
	h.used = now
	if of := c.byName[k.name]; of != nil {
		h.removed = of.removed
	} else {
		h.removed = now
		c.byName[k.name] = h // for the next sweep
	}
	c.later()
	return nil
}

// later schedules a sweep. The caller holds mu.
func (c *Catalog[E]) later() {
	if c.timer == nil {
		c.timer = time.AfterFunc(sweeps, c.sweep)
	}
}

// sweep closes entries that were idle for long enough, or whose name was removed long ago.
func (c *Catalog[E]) sweep() {
	for _, e := range c.swept(time.Now()) {
		e.Close()
	}
}

func (c *Catalog[E]) swept(now time.Time) (old []E) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	maps.DeleteFunc(c.gone, func(_ key, f failure) bool { return !now.Before(f.until) })
	left := false
	for k, h := range c.byKey {
		switch {
		case h.current:
		case h.users == 0 && (now.Sub(h.used) >= rest || !h.removed.IsZero() && now.Sub(h.removed) >= grace):
			c.forget(k, h)
			old = append(old, h.entry)
		default:
			left = true
		}
	}
	c.old = slices.DeleteFunc(c.old, func(h *openEntry[E]) bool {
		if h.users > 0 {
			left = true
			return false
		}
		c.leaveNeeds(h)
		old = append(old, h.entry)
		return true
	})
	if left {
		c.later()
	}
	return old
}

// leaveNeeds ends an entry's uses of other entries, at the time of the entry's own last use. The
// caller holds mu.
func (c *Catalog[E]) leaveNeeds(h *openEntry[E]) {
	for _, need := range h.needs {
		c.leave(need, h.used)
	}
}

// forget removes an entry. The caller holds mu.
func (c *Catalog[E]) forget(k key, h *openEntry[E]) {
	c.leaveNeeds(h)
	delete(c.byKey, k)
	if c.byName[k.name] == h {
		delete(c.byName, k.name)
	}
}

// Close closes all entries. None may be in use.
func (c *Catalog[E]) Close() {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	all := slices.AppendSeq(c.old, maps.Values(c.byKey))
	c.byKey, c.byName, c.current, c.old = map[key]*openEntry[E]{}, map[string]*openEntry[E]{}, nil, nil
	c.mu.Unlock()
	for _, h := range all {
		h.entry.Close()
	}
}
