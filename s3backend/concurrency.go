package s3backend

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// concurrencyLimit limits concurrent requests. The limit is halved when the store asks to slow
// down, at most once per interval, and grows by one for every full round of successes.
type concurrencyLimit struct {
	places *semaphore.Weighted

	mu    sync.Mutex
	most  float64
	limit float64
	kept  int // number of withheld places, so that only limit places remain
	cut   time.Time
}

const cutInterval = 500 * time.Millisecond

func newConcurrencyLimit(most int) *concurrencyLimit {
	return &concurrencyLimit{places: semaphore.NewWeighted(int64(most)), most: float64(most), limit: float64(most)}
}

func (l *concurrencyLimit) acquire(ctx context.Context) error { return l.places.Acquire(ctx, 1) }

// try takes a place if one is free now.
func (l *concurrencyLimit) try() bool { return l.places.TryAcquire(1) }

func (l *concurrencyLimit) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept++
	l.giveBack()
}

// giveBack releases withheld places that need not be withheld any more. The caller holds mu.
func (l *concurrencyLimit) giveBack() {
	if n := l.kept - (int(l.most) - int(l.limit)); n > 0 {
		l.kept -= n
		l.places.Release(int64(n))
	}
}

func (l *concurrencyLimit) faster() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = min(l.most, l.limit+1/l.limit)
	l.giveBack()
}

func (l *concurrencyLimit) slower() {
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

func (l *concurrencyLimit) current() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.limit)
}
