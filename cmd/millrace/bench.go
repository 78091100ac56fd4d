package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/load"
	"github.com/millrace-data/millrace/internal/location"
)

func (a *app) bench() *cobra.Command {
	return a.Build(cli.Command{
		Use: "bench GATEWAY[/NAME]", Short: "Load a gateway and print rates and latencies",
		Long: `Reads batches one after another over --connections for --duration, epoch after epoch, and
checks each body. The latency of a batch is from the request to the last byte checked. Each
batch that was begun in that time counts; if one of them fails the exit code is not 0.`,
		Example: "  millrace bench http://gw:8080 --connections 32 --duration 30s\n  millrace bench http://gw:8080 --batch-size 1024 --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x benchFlags
			x.define(f)
			f.Output(a.App)
			return func(args []string) { x.check(f, args) }, func(ctx context.Context, args []string) error {
				x.Gateway, x.Dataset, x.Options, x.Retrying = args[0], x.plan.dataset, x.plan.opt, a.retrying()
				return a.runBench(ctx, x.Config)
			}
		},
	})
}

type benchFlags struct {
	load.Config
	plan planFlags
}

func (x *benchFlags) define(f *cli.Flags) {
	x.plan.define(f)
	f.Number(&x.Connections, "connections", 8, "readers side by side")
	f.Duration(&x.Duration, "duration", 10*time.Second, "time that the load lasts")
}

func (x *benchFlags) check(f *cli.Flags, args []string) {
	served(f, args, &x.plan.dataset)
	gateways(f, args)
	x.plan.check(f)
	if x.Connections == 0 {
		f.Fault("--connections 0: want at least 1")
	}
	if x.Duration == 0 {
		f.Fault("--duration 0s: want more")
	}
}

func printBench(w io.Writer, r load.Report) {
	fmt.Fprintf(w, "%s, %s, %s in %.1f s over %s\n", cli.Count(r.Batches, "batch", "batches"), cli.Count(r.Samples, "sample", "samples"),
		humanize.IBytes(r.Bytes), r.Seconds, cli.Count(r.Connections, "connection", "connections"))
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s\n", humanize.Comma(int64(r.SamplesPS)), r.MBPS)
	fmt.Fprintf(w, "  latency p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", r.P50, r.P99, r.Max)
	if r.Errors > 0 {
		fmt.Fprintf(w, "  %s failed\n", cli.Count(r.Errors, "batch", "batches"))
	}
}

func (a *app) runBench(ctx context.Context, x load.Config) error {
	r, err := load.Run(ctx, x)
	if err != nil {
		return fmt.Errorf("bench %s: %w", location.HideSecrets(x.Gateway), err)
	}
	if err := a.Print(r, func(w io.Writer) { printBench(w, r) }); err != nil {
		return err
	}
	if r.Failed() == nil {
		return nil
	}
	return fmt.Errorf("bench %s: %d of %s failed, the first: %w", location.HideSecrets(x.Gateway), r.Errors,
		cli.Count(r.Batches+r.Errors, "batch", "batches"), r.Failed())
}
