package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
)

type benchReport struct {
	Connections int     `json:"connections"`
	Batches     uint64  `json:"batches"`
	Samples     uint64  `json:"samples"`
	Bytes       uint64  `json:"bytes"`
	Errors      uint64  `json:"errors"`
	FirstError  string  `json:"first_error,omitempty"`
	Seconds     float64 `json:"seconds"`
	SamplesPS   float64 `json:"samples_per_s"`
	MBPS        float64 `json:"mb_per_s"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	Max         float64 `json:"max_ms"`
}

func (a *app) bench() *cobra.Command {
	return a.Build(cli.Command{
		Use: "bench GATEWAY", Short: "Load a gateway and print rates and latencies", Args: 1,
		Long: `Reads batches one after another over --connections for --duration, epoch after epoch, and
checks each body. The latency of a batch is from the request to the last byte checked. Each
batch that was begun in that time counts; if one of them fails the exit code is not 0.`,
		Example: "  millrace bench http://gw:8080 --connections 32 --duration 30s\n  millrace bench http://gw:8080 --batch-size 1024 --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			x := benchFlags{patience: reachTime}
			x.define(f)
			f.Output(a.App)
			return func(args []string) { x.check(f, args) }, func(ctx context.Context, args []string) error {
				l, err := runBench(ctx, args[0], &x)
				if err != nil {
					return err
				}
				if err := a.Print(l.rep, func(w io.Writer) { printBench(w, l.rep) }); err != nil {
					return err
				}
				return l.failed(args[0])
			}
		},
	})
}

type benchFlags struct {
	plan        planFlags
	connections int
	duration    time.Duration
	patience    time.Duration // with batches that are under way when the load ends
	http        *http.Client  // nil: the client's own
}

func (x *benchFlags) define(f *cli.Flags) {
	x.plan.define(f)
	f.Number(&x.connections, "connections", 8, "`N` readers side by side")
	f.Duration(&x.duration, "duration", 10*time.Second, "`DURATION` of the load")
}

func (x *benchFlags) check(f *cli.Flags, args []string) {
	gateways(f, args)
	x.plan.check(f)
	if x.connections == 0 {
		f.Fault("--connections 0: want at least 1")
	}
	if x.duration == 0 {
		f.Fault("--duration 0s: want more")
	}
}

func printBench(w io.Writer, r benchReport) {
	fmt.Fprintf(w, "%s, %s, %s in %.1f s over %s\n", cli.Count(r.Batches, "batch", "batches"), cli.Count(r.Samples, "sample", "samples"),
		humanize.IBytes(r.Bytes), r.Seconds, cli.Count(r.Connections, "connection", "connections"))
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s\n", humanize.Comma(int64(r.SamplesPS)), r.MBPS)
	fmt.Fprintf(w, "  latency p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.P50, r.P99, r.Max)
	if r.Errors > 0 {
		fmt.Fprintf(w, "  %s failed\n", cli.Count(r.Errors, "batch", "batches"))
	}
}

// load is what the readers of a bench share.
type load struct {
	client  *client.Client
	opt     client.Options
	batches uint64
	start   time.Time
	next    atomic.Uint64

	mu      sync.Mutex // guards what follows
	rep     benchReport
	times   []time.Duration
	last    time.Time // when the last batch was there
	failure error     // of the first batch that failed
}

// reachTime is how long a bench waits for a gateway's first sign of life, and for its last: what is not
// there is not worth the patience of a training job.
const reachTime = 5 * time.Second

func reach(ctx context.Context, gateway string, h *http.Client) error {
	c, err := client.New(client.Config{Gateways: []string{gateway}, Deadline: reachTime, AttemptTimeout: reachTime, HTTP: h})
	if err != nil {
		return err
	}
	defer c.CloseIdle()
	var answer json.RawMessage
	err = c.JSON(ctx, "/v1/datasets", nil, &answer)
	var said *client.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &said) {
		return err
	}
	return fmt.Errorf("bench %s: %w in %s: %w", location.HideSecrets(gateway), errUnreachable, reachTime, err)
}

// runBench loads a gateway. What it returns has measured something: not a single batch is an error.
func runBench(ctx context.Context, gateway string, x *benchFlags) (*load, error) {
	if err := reach(ctx, gateway, x.http); err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Gateways: []string{gateway}, Dataset: x.plan.dataset, HTTP: x.http})
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	first, err := c.Batch(ctx, x.plan.opt, 0)
	if err != nil {
		return nil, err
	}
	l := &load{client: c, opt: x.plan.opt, batches: first.Batches}
	l.opt.Generation = first.Generation
	l.rep.Connections = x.connections
	l.start = time.Now()
	// What is under way at the end still counts: to cut it off would leave out the slowest. There is no deadline, since a
	// client that sees one coming gives up ahead of it, again and again.
	patient, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := fmt.Errorf("%w for %s after the load", errUnreachable, x.patience)
	defer time.AfterFunc(x.duration+x.patience, func() { cancel(gone) }).Stop()
	var g errgroup.Group
	for range x.connections {
		g.Go(func() error { l.reader(patient, x.duration); return nil })
	}
	_ = g.Wait() // readers count their errors
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l, l.report()
}

// reader takes the next batch of all until time is over.
func (l *load) reader(ctx context.Context, duration time.Duration) {
	for ctx.Err() == nil && time.Since(l.start) < duration {
		i := l.next.Add(1) - 1
		opt := l.opt
		opt.Epoch += i / l.batches
		start := time.Now()
		b, err := l.client.Batch(ctx, opt, i%l.batches)
		l.note(b, start, err)
	}
}

func (l *load) note(b *client.Batch, start time.Time, err error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.rep.Errors++; l.failure == nil {
			l.failure, l.rep.FirstError = err, err.Error()
		}
		return
	}
	l.rep.Batches++
	l.rep.Samples += uint64(b.Samples())
	l.rep.Bytes += uint64(len(b.Bytes()))
	l.times = append(l.times, now.Sub(start))
	l.last = now
}

// report turns what was noted into rates and latencies.
func (l *load) report() error {
	if len(l.times) == 0 {
		return l.failure
	}
	r := &l.rep
	r.Seconds = l.last.Sub(l.start).Seconds()
	r.SamplesPS = float64(r.Samples) / r.Seconds
	r.MBPS = float64(r.Bytes) / r.Seconds / 1e6
	slices.Sort(l.times)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(l.times))), len(l.times)-1)
		return float64(l.times[i].Microseconds()) / 1000
	}
	r.P50, r.P99, r.Max = at(0.50), at(0.99), at(1)
	return nil
}

// failed is the error of a load that did not get every batch it asked for.
func (l *load) failed(gateway string) error {
	if l.failure == nil {
		return nil
	}
	return fmt.Errorf("bench %s: %d of %s failed, the first: %w", location.HideSecrets(gateway), l.rep.Errors,
		cli.Count(l.rep.Batches+l.rep.Errors, "batch", "batches"), l.failure)
}
