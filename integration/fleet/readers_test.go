//go:build linux

package fleet_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/integration/harness"
)

const (
	ranks     = 8
	batchSize = 128
)

// job is one reader for every rank, each beside its own gateway, with a ledger for each epoch. They keep step, as ranks do
// that add up their gradients: nobody begins a batch before all have ended the one before.
type job struct {
	clients []*client.Client
	samples uint64
	plan    client.Options
	want    *reference
	think   time.Duration // between batches
	steps   atomic.Int64  // batches that all ranks have had
}

func (l *lab) job(t *testing.T, plan client.Options) *job {
	t.Helper()
	j := &job{samples: l.samples, plan: plan, want: l.reference(t, plan)}
	for range ranks {
		j.clients = append(j.clients, l.client(t, l.fleet.URLs()))
	}
	return j
}

func (l *lab) client(t *testing.T, urls []string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{
		Gateways: urls, Home: client.HomeByRank, Dataset: dataset, Deadline: 5 * time.Minute, AttemptTimeout: 2 * time.Second,
		HTTP: &http.Client{Transport: l.readers.Transport()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdle)
	return c
}

// epoch reads one epoch by all ranks and returns what is wrong with it.
func (j *job) epoch(ctx context.Context, epoch uint64) error {
	ledger := client.NewLedger(j.samples)
	step := newBarrier(len(j.clients))
	errs := make(chan error, len(j.clients))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for r, c := range j.clients {
		go func() {
			err := j.rank(ctx, c, uint64(r), epoch, ledger, step)
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
	if err := ledger.Check(); err != nil {
		return fmt.Errorf("epoch %d: %w", epoch, err)
	}
	return nil
}

func (j *job) rank(ctx context.Context, c *client.Client, rank, epoch uint64, ledger *client.Ledger, step *barrier) error {
	opt := j.plan
	opt.Epoch, opt.Rank, opt.WorldSize, opt.BatchSize, opt.Manifest = epoch, rank, ranks, batchSize, true
	for b, err := range c.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		ledger.Add(b)
		want, err := j.want.sum(ctx, opt, b.Number)
		if err != nil {
			return err
		}
		if got := crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli)); got != want {
			return fmt.Errorf("batch %d: got CRC %08x, want %08x as of a single gateway", b.Number, got, want)
		}
		if err := step.wait(ctx, j.think, func() { j.steps.Add(1) }); err != nil {
			return err
		}
	}
	return nil
}

// barrier lets a number of ranks go on together.
type barrier struct {
	mu   sync.Mutex // guards what follows
	n    int
	came int
	open chan struct{}
}

func newBarrier(n int) *barrier { return &barrier{n: n, open: make(chan struct{})} }

// wait returns when all have come and, if think is above 0, that time has passed. The last one calls together first.
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

// reference knows the sums of all batches of a plan as a gateway without a cluster gives them.
type reference struct {
	alone *client.Client
	mu    sync.Mutex                           // guards sums
	sums  map[[3]uint64]func() (uint32, error) // by epoch, batch and rank
}

func (l *lab) reference(t *testing.T, _ client.Options) *reference {
	t.Helper()
	return &reference{alone: l.client(t, []string{l.alone.URL}), sums: map[[3]uint64]func() (uint32, error){}}
}

func (r *reference) sum(ctx context.Context, opt client.Options, batch uint64) (uint32, error) {
	key := [3]uint64{opt.Epoch, batch, opt.Rank}
	r.mu.Lock()
	ask := r.sums[key]
	if ask == nil {
		ask = sync.OnceValues(func() (uint32, error) {
			opt.Manifest = false
			b, err := r.alone.Batch(context.WithoutCancel(ctx), opt, batch)
			if err != nil {
				return 0, fmt.Errorf("the single gateway: %w", err)
			}
			return crc32.Checksum(b.Bytes(), crc32.MakeTable(crc32.Castagnoli)), nil
		})
		r.sums[key] = ask
	}
	r.mu.Unlock()
	return ask()
}

// counters sums a counter up over members that are up.
func counters(t *testing.T, members []*harness.Member, name string) (sum float64) {
	t.Helper()
	for _, m := range members {
		sum += m.Metric(t, name, "")
	}
	return sum
}
