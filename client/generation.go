package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrNoGeneration is returned if the ranks of a job could read different generations, because the
// gateways load new ones by themselves and Options.Generation is empty. Rank 0 should call Describe
// and pass its generation to all ranks.
var ErrNoGeneration = errors.New("ranks could read different generations")

// followsFor is the cache time of a dataset description. Gateways may restart with other settings.
const followsFor = time.Minute

// generationCheck caches whether the gateways follow new generations of the dataset.
type generationCheck struct {
	mu    sync.Mutex // guards the fields below
	at    time.Time  // time of the last description; zero: none
	about Dataset
}

// agree rejects options that would let the ranks of a job read different generations. It describes
// the dataset at most once per followsFor, and only if there are several ranks and no generation is
// set.
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
		"rank %d of %d sets no generation, but the gateways switch dataset %s to new generations by themselves: %w; "+
			"use the same generation for all ranks: rank 0 reads it (Client.Describe, or millrace info) and sends it to the others; the current one is %s",
		opt.Rank, opt.WorldSize, d.Name, ErrNoGeneration, d.Generation)
}

// described returns a description of the dataset that is at most followsFor old.
func (c *Client) described(ctx context.Context) (Dataset, error) {
	f := c.generations
	f.mu.Lock()
	about, fresh := f.about, !f.at.IsZero() && time.Since(f.at) < followsFor
	f.mu.Unlock()
	if fresh {
		return about, nil
	}
	at := time.Now()
	about, err := c.Describe(ctx)
	if err != nil {
		return Dataset{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.about = at, about
	return about, nil
}
