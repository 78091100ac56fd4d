package s3backend

import (
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// retryBudget limits retries to a tenth of the first attempts, or to ten per second if that is
// more.
type retryBudget struct {
	tokenBucket
	floor *rate.Limiter
}

func newRetryBudget() *retryBudget {
	return &retryBudget{tokenBucket: tokenBucket{share: 0.1, most: 100}, floor: rate.NewLimiter(10, 10)}
}

func (b *retryBudget) spend() bool { return b.floor.Allow() || b.tokenBucket.spend() }

// tokenBucket gains share tokens with each request, up to most tokens. A retry or a hedge costs one
// token.
type tokenBucket struct {
	share, most float64

	mu     sync.Mutex
	tokens float64
}

func (t *tokenBucket) earn() {
	t.mu.Lock()
	t.tokens = min(t.tokens+t.share, t.most)
	t.mu.Unlock()
}

func (t *tokenBucket) spend() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

// wait returns the pause before retry n, counted from 1. Full jitter prevents requests that failed
// together from being retried together.
func (p retryPolicy) wait(n int, throttled bool) time.Duration {
	base := p.base
	if throttled {
		base *= 10
	}
	most := min(base<<min(n-1, 16), max(p.top, base))
	return time.Duration(rand.Int64N(int64(most) + 1))
}
