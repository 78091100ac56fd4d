package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNoGeneration says that the ranks of a job could read different generations of a dataset: the gateways move it to new ones by
// themselves, and Options.Generation is empty. Rank 0 asks with Describe, and all ranks are given what it got.
var ErrNoGeneration = errors.New("ranks could read different generations")

// followsFor is how long an answer about a dataset holds: gateways may be started again with other settings.
const followsFor = time.Minute

// generationCheck caches whether the gateways follow new generations of the dataset.
type generationCheck struct {
	mu    sync.Mutex // guards what follows
	asked time.Time  // when dataset was asked for; zero: never
	about Dataset
}

// agree refuses options by which the ranks of a job could read different generations. It asks the gateways at most once in
// followsFor, and only for one of several ranks that has no generation yet.
func (c *Client) agree(ctx context.Context, opt Options) error {
	if opt.Generation != "" || opt.WorldSize <= 1 {
		return nil
	}
	d, err := c.described(ctx)
	if err != nil {
		return err
	}
	if !d.Follows {
		return nil
	}
	return fmt.Errorf(
		"rank %d of %d names no generation, and the gateways move dataset %s to new ones by themselves: %w; "+
			"give all ranks the same generation: rank 0 asks (Client.Describe, or millrace info) and tells the others; now it is %s",
		opt.Rank, opt.WorldSize, d.Name, ErrNoGeneration, d.Generation)
}

// described describes the dataset as it is, or was less than followsFor ago.
func (c *Client) described(ctx context.Context) (Dataset, error) {
	f := c.generations
	f.mu.Lock()
	about, fresh := f.about, !f.asked.IsZero() && time.Since(f.asked) < followsFor
	f.mu.Unlock()
	if fresh {
		return about, nil
	}
	asked := time.Now()
	about, err := c.Describe(ctx)
	if err != nil {
		return Dataset{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.about = asked, about
	return about, nil
}
