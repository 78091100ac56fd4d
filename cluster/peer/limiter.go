package peer

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// addressLimiter limits the units of concurrent requests for each address.
type addressLimiter struct {
	most int64

	mu   sync.Mutex // guards the fields below
	open map[string]*addressLimit
}

type addressLimit struct {
	*semaphore.Weighted
	users int // number of requests that have or wait for a turn; the last one removes the address
}

func newAddressLimiter(most int) *addressLimiter {
	return &addressLimiter{most: int64(most), open: map[string]*addressLimit{}}
}

// take waits for a turn of n units. The returned function releases them; further calls of it do
// nothing.
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
