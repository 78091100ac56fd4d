package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/client"
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
	return a.build(command{
		use: "bench GATEWAY", short: "Load a gateway and print rates and latencies", args: 1,
		long: `Reads batches one after another over --connections for --duration, epoch after epoch, and
checks each body. The latency of a batch is from the request to the last byte checked.`,
		example: "  millrace bench http://gw:8080 --connections 32 --duration 30s\n  millrace bench http://gw:8080 --batch-size 1024 --json",
		setup: func(f *flags) (func([]string), func(context.Context, []string) error) {
			var p planFlags
			var n int
			var d time.Duration
			p.define(f)
			f.number(&n, "connections", 8, "`N` readers side by side")
			f.duration(&d, "duration", 10*time.Second, "`DURATION` of the load")
			f.output(a)
			check := func(args []string) {
				gateways(f, args)
				p.check(f)
				if n == 0 {
					f.fault("--connections 0: want at least 1")
				}
				if d == 0 {
					f.fault("--duration 0s: want more")
				}
			}
			return check, func(ctx context.Context, args []string) error {
				l, err := runBench(ctx, args[0], &p, n, d)
				if err != nil {
					return err
				}
				if err := a.print(l.rep, func(w io.Writer) { printBench(w, l.rep) }); err != nil {
					return err
				}
				if l.failure != nil {
					return fmt.Errorf("bench %s: %d of %s failed, the first: %w", args[0], l.rep.Errors,
						count(l.rep.Batches+l.rep.Errors, "batch", "batches"), l.failure)
				}
				return nil
			}
		},
	})
}

func printBench(w io.Writer, r benchReport) {
	fmt.Fprintf(w, "%s, %s, %s in %.1f s over %s\n", count(r.Batches, "batch", "batches"), count(r.Samples, "sample", "samples"),
		humanize.IBytes(r.Bytes), r.Seconds, count(r.Connections, "connection", "connections"))
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s\n", humanize.Comma(int64(r.SamplesPS)), r.MBPS)
	fmt.Fprintf(w, "  latency p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.P50, r.P99, r.Max)
	if r.Errors > 0 {
		fmt.Fprintf(w, "  %s failed\n", count(r.Errors, "batch", "batches"))
	}
}

// load is what the readers of a bench share.
type load struct {
	client  *client.Client
	opt     client.Options
	batches uint64
	next    atomic.Uint64

	mu      sync.Mutex // guards what follows
	rep     benchReport
	times   []time.Duration
	failure error // of the first batch that failed
}

// reachTime is how long a bench waits for a gateway's first sign of life: what is not there
// is not worth the patience of a training job.
const reachTime = 5 * time.Second

func reach(ctx context.Context, gateway string) error {
	c, err := client.New(client.Config{Gateways: []string{gateway}, Deadline: reachTime, AttemptTimeout: reachTime})
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
	return fmt.Errorf("bench %s: %w in %s: %w", gateway, errUnreachable, reachTime, err)
}

// errMeasured ends the readers of a bench.
var errMeasured = errors.New("the measurement is over")

// runBench loads a gateway. What it returns has measured something: not a single batch is an error.
func runBench(ctx context.Context, gateway string, p *planFlags, n int, d time.Duration) (*load, error) {
	if err := reach(ctx, gateway); err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{Gateways: []string{gateway}, Dataset: p.dataset})
	if err != nil {
		return nil, err
	}
	defer c.CloseIdle()
	first, err := c.Batch(ctx, p.opt, 0)
	if err != nil {
		return nil, err
	}
	l := &load{client: c, opt: p.opt, batches: first.Batches}
	l.opt.Generation = first.Generation
	l.rep.Connections = n
	start := time.Now()
	// Not a deadline: a client that sees one coming gives up ahead of it, again and again.
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(d, func() { cancel(errMeasured) }).Stop()
	var g errgroup.Group
	for range n {
		g.Go(func() error { l.reader(limited); return nil })
	}
	_ = g.Wait() // readers count their errors
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l, l.report(time.Since(start))
}

// reader takes the next batch of all until time is over.
func (l *load) reader(ctx context.Context) {
	for ctx.Err() == nil {
		i := l.next.Add(1) - 1
		opt := l.opt
		opt.Epoch += i / l.batches
		start := time.Now()
		b, err := l.client.Batch(ctx, opt, i%l.batches)
		took := time.Since(start)
		if network := (*net.OpError)(nil); err != nil && ctx.Err() != nil && !errors.As(err, &network) {
			return // cut off by the end of the measurement
		}
		l.note(b, took, err)
	}
}

func (l *load) note(b *client.Batch, took time.Duration, err error) {
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
	l.times = append(l.times, took)
}

// report turns what was noted into rates and latencies.
func (l *load) report(took time.Duration) error {
	if len(l.times) == 0 {
		if l.failure != nil {
			return l.failure
		}
		return errors.New("no batch came in time")
	}
	r := &l.rep
	r.Seconds = took.Seconds()
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
