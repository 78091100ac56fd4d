// Package parallel runs a number of tasks on a few goroutines.
package parallel

import (
	"context"
	"sync"
)

// Each does items 0 to n-1, several at a time, and waits for all of them. The first error ends the context
// that the others see. worker numbers those who work, so that each may keep memory of its own.
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
