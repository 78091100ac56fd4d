package s3backend

import (
	"context"
	"sync"
	"time"
)

// limiter bounds the requests under way. It halves when the store asks to slow down, at most
// once per interval, and grows by one for every full round of successes.
type limiter struct {
	mu      sync.Mutex
	most    float64
	limit   float64
	busy    int
	waiting []chan struct{}
	cut     time.Time
}

const cutInterval = 500 * time.Millisecond

func newLimiter(most int) *limiter { return &limiter{most: float64(most), limit: float64(most)} }

func (l *limiter) acquire(ctx context.Context) error {
	l.mu.Lock()
	if l.busy < int(l.limit) && len(l.waiting) == 0 {
		l.busy++
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.waiting {
		if w == turn {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			return ctx.Err()
		}
	}
	l.busy-- // the turn came at the same moment: pass it on
	l.wake()
	return ctx.Err()
}

// try takes a place if one is free at once.
func (l *limiter) try() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy >= int(l.limit) || len(l.waiting) > 0 {
		return false
	}
	l.busy++
	return true
}

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	l.wake()
}

func (l *limiter) wake() {
	for l.busy < int(l.limit) && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
		l.busy++
	}
}

func (l *limiter) faster() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = min(l.most, l.limit+1/l.limit)
	l.wake()
}

func (l *limiter) slower() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.cut) >= cutInterval {
		l.cut = now
		l.limit = max(1, l.limit/2)
	}
}

func (l *limiter) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}
