package clustersim

import (
	"context"
	"sync"
)

// barrier makes ranks wait for one another.
type barrier struct {
	ranks int

	mu   sync.Mutex // guards the fields below
	came int
	open chan struct{} // closed when all ranks have arrived
}

func newBarrier(ranks int) *barrier { return &barrier{ranks: ranks, open: make(chan struct{})} }

// wait returns when all ranks have arrived. The last rank calls together.
func (b *barrier) wait(ctx context.Context, together func()) error {
	b.mu.Lock()
	open := b.open
	if b.came++; b.came == b.ranks {
		together()
		b.came, b.open = 0, make(chan struct{})
		close(open)
	}
	b.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
