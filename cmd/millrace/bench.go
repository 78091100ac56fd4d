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
				rep, err := runBench(ctx, args[0], &p, n, d)
				if err != nil {
					return err
				}
				return a.print(rep, func(w io.Writer) { printBench(w, rep) })
			}
		},
	})
}

func printBench(w io.Writer, r benchReport) {
	fmt.Fprintf(w, "%s batches, %s samples, %s in %.1f s over %d connections\n", humanize.Comma(int64(r.Batches)),
		humanize.Comma(int64(r.Samples)), humanize.IBytes(r.Bytes), r.Seconds, r.Connections)
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s\n", humanize.Comma(int64(r.SamplesPS)), r.MBPS)
	fmt.Fprintf(w, "  latency p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.P50, r.P99, r.Max)
	if r.Errors > 0 {
		fmt.Fprintf(w, "  %d errors, the first: %s\n", r.Errors, r.FirstError)
	}
}

// load is what the readers of a bench share.
type load struct {
	client  *client.Client
	opt     client.Options
	batches uint64
	next    atomic.Uint64

	mu    sync.Mutex // guards what follows
	rep   benchReport
	times []time.Duration
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

func runBench(ctx context.Context, gateway string, p *planFlags, n int, d time.Duration) (benchReport, error) {
	if err := reach(ctx, gateway); err != nil {
		return benchReport{}, err
	}
	c, err := client.New(client.Config{Gateways: []string{gateway}, Dataset: p.dataset})
	if err != nil {
		return benchReport{}, err
	}
	defer c.CloseIdle()
	first, err := c.Batch(ctx, p.opt, 0)
	if err != nil {
		return benchReport{}, err
	}
	l := &load{client: c, opt: p.opt, batches: first.Batches}
	l.opt.Generation = first.Generation
	l.rep.Connections = n
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var g errgroup.Group
	for range n {
		g.Go(func() error { l.reader(limited); return nil })
	}
	_ = g.Wait() // readers count their errors
	if ctx.Err() != nil {
		return benchReport{}, context.Cause(ctx)
	}
	return l.report(time.Since(start))
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
		l.mu.Lock()
		if err != nil {
			l.rep.Errors++
			if l.rep.FirstError == "" {
				l.rep.FirstError = err.Error()
			}
		} else {
			l.rep.Batches++
			l.rep.Samples += uint64(b.Samples())
			l.rep.Bytes += uint64(len(b.Bytes()))
			l.times = append(l.times, took)
		}
		l.mu.Unlock()
	}
}

func (l *load) report(took time.Duration) (benchReport, error) {
	r := l.rep
	if len(l.times) == 0 {
		if r.FirstError == "" {
			r.FirstError = "no batch came in time"
		}
		return r, errors.New(r.FirstError)
	}
	r.Seconds = took.Seconds()
	r.SamplesPS = float64(r.Samples) / r.Seconds
	r.MBPS = float64(r.Bytes) / r.Seconds / 1e6
	slices.Sort(l.times)
	at := func(q float64) float64 {
		i := min(int(q*float64(len(l.times))), len(l.times)-1)
		return float64(l.times[i].Microseconds()) / 1000
	}
	r.P50, r.P99, r.Max = at(0.50), at(0.99), at(1)
	return r, nil
}
