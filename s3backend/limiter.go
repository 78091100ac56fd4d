package s3backend

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// limiter bounds the requests under way. It halves when the store asks to slow down, at most
// once per interval, and grows by one for every full round of successes.
type limiter struct {
	places *semaphore.Weighted

	mu    sync.Mutex
	most  float64
	limit float64
	kept  int // places that are kept back, so that limit are left
	cut   time.Time
}

const cutInterval = 500 * time.Millisecond

func newLimiter(most int) *limiter {
	return &limiter{places: semaphore.NewWeighted(int64(most)), most: float64(most), limit: float64(most)}
}

func (l *limiter) acquire(ctx context.Context) error { return l.places.Acquire(ctx, 1) }

// try takes a place if one is free at once.
func (l *limiter) try() bool { return l.places.TryAcquire(1) }

func (l *limiter) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept++
	l.giveBack()
}

// giveBack gives back the places that were kept beyond need. The caller holds mu.
func (l *limiter) giveBack() {
	if n := l.kept - (int(l.most) - int(l.limit)); n > 0 {
		l.kept -= n
		l.places.Release(int64(n))
	}
}

func (l *limiter) faster() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = min(l.most, l.limit+1/l.limit)
	l.giveBack()
}

func (l *limiter) slower() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.cut) >= cutInterval {
		l.cut = now
		l.limit = max(1, l.limit/2)
	}
	for l.kept < int(l.most)-int(l.limit) && l.places.TryAcquire(1) {
		l.kept++
	}
}

func (l *limiter) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}
