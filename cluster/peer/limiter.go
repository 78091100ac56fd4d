package peer

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// addressLimiter bounds what requests count that one address has at a time.
type addressLimiter struct {
	most int64

	mu   sync.Mutex // guards what follows
	open map[string]*addressLimit
}

type addressLimit struct {
	*semaphore.Weighted
	users int // who has a turn or waits for one; the last one forgets the address
}

func newAddressLimiter(most int) *addressLimiter {
	return &addressLimiter{most: int64(most), open: map[string]*addressLimit{}}
}

// take waits for a turn, which counts as n of the most. The function that it returns gives it back, once.
func (t *addressLimiter) take(ctx context.Context, address string, n int64) (give func(), err error) {
	t.mu.Lock()
	at := t.open[address]
	if at == nil {
		at = &addressLimit{Weighted: semaphore.NewWeighted(t.most)}
		t.open[address] = at
	}
	at.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if at.users--; at.users == 0 {
			delete(t.open, address)
		}
	}
	if at.Acquire(ctx, n) != nil {
		leave()
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() {
		at.Release(n)
		leave()
	}), nil
}
