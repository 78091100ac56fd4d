// Package pause remembers recent failures, so that the objects that failed are not used for a
// while: chunks that could not be loaded, gateways that had nothing to send, a failing disk.
package pause

import (
	"sync"
	"time"
)

// Rule defines when something is paused, and for how long.
type Rule struct {
	Failures int           // number of failures within the time First that start a pause
	First    time.Duration // length of the first pause
	Longest  time.Duration // after a failure right after a pause, the next pause is twice as long, up to this; 0: always First
}

// List remembers the failures of many keys. It is safe for concurrent use.
type List[K comparable] struct {
	rule Rule

	mu    sync.Mutex // guards the fields below
	known map[K]trouble
	sweep int // size of known at which old entries are removed next
}

// trouble is the state of one key that has failed.
type trouble struct {
	failures int
	since    time.Time     // time of the first of these failures
	pause    time.Duration // length of the last pause; 0: there was none
	until    time.Time     // end of the last pause
}

// leastSweep is the smallest number of known keys at which old ones are removed.
const leastSweep = 64

// NewList returns a list without failures.
func NewList[K comparable](rule Rule) *List[K] {
	return &List[K]{rule: rule, known: map[K]trouble{}, sweep: leastSweep}
}

// Failed records a failure, and reports whether it starts a pause. During a pause failures do not
// count, since the failed operation began before the pause.
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

// forget removes old failures when the number of known keys has doubled since the last removal. The
// cost of one failure is therefore constant on average. The caller holds mu.
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

// Works records a success, and reports whether it is the first one after a pause. During a pause
// successes do not count, since the operation began before the pause. Without a pause, earlier
// failures still count.
func (l *List[K]) Works(k K, now time.Time) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.known[k]
	if again = t.pause > 0 && !now.Before(t.until); again {
		delete(l.known, k)
	}
	return again
}

// Forget removes all failures of a key.
func (l *List[K]) Forget(k K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, k)
}

// Paused reports whether a key is paused now.
func (l *List[K]) Paused(k K, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.known[k].until)
}
