//go:build linux

package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
	"github.com/millrace-data/millrace/integration/history"
)

const (
	ranks     = 8
	batchSize = 128
)

// job has one reader for every rank, which prefers its own gateway, and a history. The ranks are in
// step, as in synchronous training: no rank begins a batch before all have finished the previous
// one.
type job struct {
	clients []*client.Client
	plan    client.Options
	log     *history.Log
	think   time.Duration // between batches
	steps   atomic.Int64  // batches that all ranks have finished
}

func (l *lab) job(t *testing.T, plan client.Options) *job {
	t.Helper()
	j := &job{plan: plan, log: harness.Record(t, l.packed)}
	for r := range ranks {
		j.clients = append(j.clients, l.client(t, j.log, fmt.Sprint("rank ", r), 2*time.Second, l.fleet.URLs()...))
	}
	return j
}

// client returns a client that waits at most the given time for each gateway, and adds its
// responses to a history.
func (l *lab) client(t *testing.T, log *history.Log, name string, wait time.Duration, urls ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		Gateways: urls, Home: client.HomeByRank, Dataset: dataset, Deadline: 5 * time.Minute, AttemptTimeout: wait,
		HTTP: &http.Client{Transport: log.Through(name, l.readers.Transport())},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// epoch reads one epoch with all ranks, and returns the violations.
func (j *job) epoch(ctx context.Context, epoch uint64) error {
	step := newBarrier(len(j.clients))
	errs := make(chan error, len(j.clients))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r, c := range j.clients {
		go func() {
			err := j.rank(ctx, c, uint64(r), epoch, step)
			if err != nil {
				cancel()
				err = fmt.Errorf("epoch %d, rank %d: %w", epoch, r, err)
			}
			errs <- err
		}()
	}
	var first error
	for range j.clients {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		return first
	}
	j.log.Complete("job", jobName(epoch), 0)
	return j.log.Err()
}

// jobName returns the name of an epoch in the history.
func jobName(epoch uint64) string { return fmt.Sprint("epoch ", epoch) }

func (j *job) rank(ctx context.Context, c *client.Client, rank, epoch uint64, step *barrier) error {
	opt := j.plan
	opt.Epoch, opt.Rank, opt.WorldSize, opt.BatchSize, opt.Manifest = epoch, rank, ranks, batchSize, true
	for b, err := range c.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		j.log.Took(fmt.Sprint("rank ", rank), jobName(epoch), b)
		if err := step.wait(ctx, j.think, func() { j.steps.Add(1) }); err != nil {
			return err
		}
	}
	return nil
}

// barrier makes the ranks wait for one another.
type barrier struct {
	mu   sync.Mutex // guards the fields below
	n    int
	came int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, open: make(chan struct{})} }

// wait returns when all ranks have arrived. If think is above 0, it also waits for that time. The
// last rank first calls together.
func (b *barrier) wait(ctx context.Context, think time.Duration, together func()) error {
	b.mu.Lock()
	open := b.open
	b.came++
	if b.came == b.n {
		b.came, b.open = 0, make(chan struct{})
		together()
		close(open)
	}
	b.mu.Unlock()
	pause := time.NewTimer(think)
	defer pause.Stop()
	select {
	case <-open:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if think > 0 {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// counters returns the sum of a counter over the running members.
func counters(t *testing.T, members []*harness.Member, name string) (sum float64) {
	t.Helper()
	for _, m := range members {
		sum += m.Metric(t, name, "")
	}
	return sum
}
