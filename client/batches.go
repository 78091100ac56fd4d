package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
)

// Batches reads the batches of an epoch in order, with Options.Prefetch requests ahead of the
// consumer. The sequence ends after an error; a job resumes from the batch after the last one that
// was yielded. When the loop body breaks or ctx ends, Batches cancels all requests and waits for
// them.
//
// If the start is the end of the epoch, or less than one step after it, the epoch is finished and
// Batches yields nothing.
func (c *Client) Batches(ctx context.Context, opt Options) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		opt := opt // the sequence may be iterated again: each run pins its own generation
		if err := opt.validate(); err != nil {
			yield(nil, fmt.Errorf("read epoch %d: %w", opt.Epoch, err))
			return
		}
		if opt.Until != 0 && opt.From >= opt.Until {
			return
		}
		var wg sync.WaitGroup
		defer wg.Wait()

		first, err := c.Batch(ctx, opt, opt.From)
		if finished(err, &opt) {
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		opt.Generation, opt.batches = first.Generation, first.Batches
		opt.Until = min(cmp.Or(opt.Until, first.Batches), first.Batches)
		c.adviseHomes(ctx, opt, first)
		c.read(ctx, &wg, opt, first, yield)
	}
}

type result struct {
	batch *Batch
	err   error
}

// read yields first and the batches after it, with up to Options.Prefetch requests in flight.
func (c *Client) read(ctx context.Context, wg *sync.WaitGroup, opt Options, first *Batch, yield func(*Batch, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	queue := []chan result{make(chan result, 1)}
	defer func() {
		cancel()
		for _, unread := range queue { // each channel gets a result, because Batch returns when ctx ends
			if r := <-unread; r.batch != nil {
				r.batch.Close()
			}
		}
	}()
	queue[0] <- result{first, nil}
	next, more := advance(opt.From, &opt)
	start := func() {
		ch, number := make(chan result, 1), next
		queue = append(queue, ch)
		next, more = advance(next, &opt)
		wg.Go(func() {
			b, err := c.Batch(ctx, opt, number)
			ch <- result{b, err}
		})
	}
	depth := opt.prefetch()
	for {
		for more && len(queue) < max(depth, 1) {
			start()
		}
		if len(queue) == 0 {
			return
		}
		r := <-queue[0]
		queue = queue[1:]
		if depth > 0 && more && r.err == nil {
			start()
		}
		if !yield(r.batch, r.err) || r.err != nil {
			return
		}
	}
}

// advance returns the number of the batch to read after batch n, or false at the end of the range.
func advance(n uint64, opt *Options) (uint64, bool) {
	step := opt.step()
	if n >= opt.Until || opt.Until-n <= step {
		return 0, false
	}
	return n + step, true
}

// finished reports whether err only means that the epoch ended less than one step before opt.From.
func finished(err error, opt *Options) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeEndOfEpoch {
		return false
	}
	return e.counted && e.Batches <= opt.From && opt.From-e.Batches < opt.step()
}
