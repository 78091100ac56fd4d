// Package pause remembers what has failed of late, so that it is left alone for a while: chunks that could
// not be fetched, gateways that had nothing to send, a disk that fails.
package pause

import (
	"sync"
	"time"
)

// Rule says when a thing is left alone, and for how long.
type Rule struct {
	Failures int           // within First, of a thing that is not left alone: then it is
	First    time.Duration // how long it is left alone
	Longest  time.Duration // if it fails again right after a pause, the next one is twice as long, up to this; 0: as long
}

// List remembers the failures of many things. It is safe for concurrent use.
type List[K comparable] struct {
	rule Rule

	mu    sync.Mutex // guards what follows
	known map[K]trouble
	sweep int // things known at which the old ones are forgotten
}

// trouble is what is known of one thing.
type trouble struct {
	failures int
	since    time.Time     // the first of these failures
	pause    time.Duration // the last pause; 0: there was none
	until    time.Time     // its end
}

// leastSweep is how many things may be known before old ones are looked for.
const leastSweep = 64

// NewList returns a list that knows of no failure.
func NewList[K comparable](rule Rule) *List[K] {
	return &List[K]{rule: rule, known: map[K]trouble{}, sweep: leastSweep}
}

// Failed notes a failure, and reports whether the thing is left alone from now on. While it is left
// alone no failure counts: what failed began before.
func (l *List[K]) Failed(k K, now time.Time) (paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known[k]
	if now.Before(t.until) {
		return false
	}
	if now.Sub(t.since) > l.rule.First {
		t.failures, t.since = 0, now
	}
	t.failures++
	if t.pause > 0 && l.rule.Longest > 0 || t.failures >= l.rule.Failures {
		t.pause = max(min(2*t.pause, l.rule.Longest), l.rule.First)
		t.failures, t.until = 0, now.Add(t.pause)
		paused = true
	}
	l.known[k] = t
	l.forget(now)
	return paused
}

// forget forgets old failures once twice as many things are known as were left the last time: so one
// failure costs as little beside thousands as alone. The caller holds mu.
func (l *List[K]) forget(now time.Time) {
	if len(l.known) < l.sweep {
		return
	}
	for k, t := range l.known {
		if now.Sub(t.since) > l.rule.First && now.Sub(t.until) > l.rule.Longest {
			delete(l.known, k)
		}
	}
	l.sweep = max(2*len(l.known), leastSweep)
}

// Works notes a success, and reports whether it is the first one after a pause. While the thing is left alone no
// success counts: what succeeded began before. Failures from before still count if there was no pause.
func (l *List[K]) Works(k K, now time.Time) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known[k]
	if again = t.pause > 0 && !now.Before(t.until); again {
		delete(l.known, k)
	}
	return again
}

// Forget forgets all failures of a thing.
func (l *List[K]) Forget(k K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, k)
}

// Paused reports whether a thing is left alone now.
func (l *List[K]) Paused(k K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.known[k].until)
}
