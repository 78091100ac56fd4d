// Package parallel runs tasks on a limited number of goroutines.
package parallel

import (
	"context"
	"sync"
)

// Each processes items 0 to n-1 on the given number of workers and waits for all workers. The first
// error cancels the context of the others. worker identifies the goroutine, so that each goroutine
// can reuse its own buffers.
func Each(ctx context.Context, workers, n int, do func(ctx context.Context, worker, item int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var group sync.WaitGroup
	for worker := range min(workers, n) {
		group.Go(func() {
			for item := range work {
				if err := do(ctx, worker, item); err != nil {
					cancel(err)
				}
			}
		})
	}
	for item := range n {
		if ctx.Err() != nil {
			break
		}
		work <- item
	}
	close(work)
	group.Wait()
	return context.Cause(ctx)
}
