package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/reach"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
	"github.com/millrace-data/millrace/shuffle"
)

type fetchFlags struct {
	plan       planFlags
	allRanks   bool
	parallel   int
	deadline   time.Duration
	output     string
	home       string
	noManifest bool
}

func (x *fetchFlags) define(f *cli.Flags) {
	x.plan.define(f, ^address.Group(0), "table")
	f.Count(&x.plan.opt.From, "from", 0, "first batch")
	f.Between(&x.plan.opt.Until, "until", 1, math.MaxUint64, 0, "batch to stop before (default the end)")
	f.Flag(&x.allRanks, "all-ranks", "read the shares of all ranks concurrently")
	f.Number(&x.parallel, "parallel", 1, 8, "batches to read concurrently")
	f.Duration(&x.deadline, "deadline", client.DefaultDeadline, "time limit for one batch, with retries")
	f.Text(&x.output, "output", "", "`DIR` write each batch to a file; resume if files are there")
	f.Choice(&x.home, "home", "", "choose the first gateway of a rank by the rank's number (default the fastest)", "rank")
	f.Flag(&x.noManifest, "no-manifest", "skip manifests: check bytes, but not that samples come exactly once")
}

func (x *fetchFlags) check(f *cli.Flags, args []string) {
	served(f, args, &x.plan.dataset)
	gatewaysOf(f, x.config(args))
	x.plan.check(f)
	if (x.plan.opt.Format != "" || x.plan.opt.Fields != "") && !x.noManifest {
		f.Fault("--format and --fields require --no-manifest: a manifest describes whole samples")
	}
	if x.allRanks && x.plan.opt.Rank != 0 {
		f.Fault("--all-ranks and --rank exclude each other")
	}
	if u := x.plan.opt.Until; u != 0 && u <= x.plan.opt.From {
		f.Fault("--until %d must be more than --from, %d", u, x.plan.opt.From)
	}
}

type fetchReport struct {
	client.EpochReport
	Seconds   float64 `json:"seconds"`
	SamplesPS float64 `json:"samples_per_s"`
	MBPS      float64 `json:"mb_per_s"`
	P50       float64 `json:"p50_ms"` // latency of a batch
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	Proved    string  `json:"proved"` // result of the checks beyond lengths and CRCs
}

func newFetchReport(r client.EpochReport) fetchReport {
	f := fetchReport{EpochReport: r, Seconds: r.Took.Seconds(), Proved: proved(r.Proof)}
	if f.Seconds > 0 {
		f.SamplesPS = float64(f.Samples-f.Reused.Samples) / f.Seconds
		f.MBPS = float64(f.Bytes-f.Reused.Bytes) / f.Seconds / 1e6
	}
	if n := len(r.Latencies); n > 0 {
		ms := func(i int) float64 { return float64(r.Latencies[i].Microseconds()) / 1000 }
		f.P50, f.P99, f.Max = ms(n/2), ms(n*99/100), ms(n-1)
	}
	return f
}

// proved describes the result of a proof.
func proved(p client.Proof) string {
	switch {
	case p.Of == "":
		return "manifests were not read"
	case !p.Whole:
		return fmt.Sprintf("no %s came twice (%s of %s %ss were asked for)", p.Of, humanize.Comma(int64(p.Seen)), humanize.Comma(int64(p.Total)), p.Of)
	case p.Dropped > 0:
		return fmt.Sprintf("no %s came twice, %d of the tail were dropped as the plan says", p.Of, p.Dropped)
	}
	return "every " + p.Of + " came exactly once"
}

func (a *app) fetch() *cobra.Command {
	return a.Build(cli.Command{
		Use: "fetch GATEWAY[/NAME]...", Short: "Read and check an epoch, print throughput and latency",
		Long: `Reads an epoch from one or more gateways and checks the length and CRC-32C of each batch. Manifests
prove that each sample came exactly once. Prints throughput and latency; with --output, keeps each
batch as a file, and a second run resumes.

GATEWAY can be http://gateways-{0..7}.NAME:PORT, srv:_http._tcp.NAME, dns:NAME:PORT or unix:PATH.
The fastest gateway is used, and another one if it fails. With --home rank, or --share locality and
several gateways in the same order for all ranks, rank R of W first uses gateway R*P/W of P.`,
		Example: `  millrace fetch http://gw:8080/photos --batch-size 1024 --parallel 32
  millrace fetch http://gateways-{0..3}.gateways:8080 --world-size 8 --all-ranks --share locality`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x fetchFlags
			x.define(f)
			return func(args []string) { x.check(f, args) }, func(ctx context.Context, args []string) error {
				rep, err := a.runFetch(ctx, &x, args)
				if err != nil {
					return err
				}
				return a.Print(rep, func(w io.Writer) { printFetch(w, rep) })
			}
		},
	})
}

func printFetch(w io.Writer, r fetchReport) {
	fmt.Fprintf(w, "epoch %d of %s: %s in %s, %s, in %.2f s\n", r.Epoch, r.Dataset, words.Count(r.Samples, "sample", "samples"),
		words.Count(r.Batches, "batch", "batches"), humanize.IBytes(r.Bytes), r.Seconds)
	if n := r.Reused.Batches; n > 0 {
		fmt.Fprintf(w, "  %s there already, %s\n", words.Count(n, "batch was", "batches were"), humanize.IBytes(r.Reused.Bytes))
	}
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s; latency of a batch: p50 %.2f ms, p99 %.2f ms, max %.2f ms\n",
		humanize.Comma(int64(r.SamplesPS)), r.MBPS, r.P50, r.P99, r.Max)
	fmt.Fprintf(w, "  every length and CRC-32C matched; %s\n", r.Proved)
}

// config returns the client's configuration. Each rank uses its own gateway first if --home
// requires it, or if shares follow homes and several gateways are named in order.
func (x *fetchFlags) config(gateways []string) client.Config {
	cfg := client.Config{Gateways: gateways, Dataset: x.plan.dataset, Deadline: x.deadline}
	begins := func(prefix string) bool {
		return slices.ContainsFunc(gateways, func(g string) bool { return strings.HasPrefix(g, prefix) })
	}
	inOrder := !begins("dns:") && (len(gateways) > 1 || begins("srv:") || strings.Contains(gateways[0], "{"))
	if x.home == "rank" || x.plan.opt.Share == string(shuffle.Locality) && inOrder {
		cfg.Home = client.HomeByRank
	}
	return cfg
}

func (a *app) runFetch(ctx context.Context, x *fetchFlags, args []string) (fetchReport, error) {
	cfg := x.config(args)
	cfg.Retrying = a.retrying()
	log.SetFlags(0) // slog's default logger writes here
	log.SetPrefix("millrace: ")
	log.SetOutput(a.Stderr)
	var answer *client.Error // for example "starting", for which --deadline helps
	if err := reach.Check(ctx, cfg); err != nil && !errors.As(err, &answer) {
		return fetchReport{}, fmt.Errorf("%s: %w", location.HideSecrets(strings.Join(args, ", ")), err)
	}
	c, err := client.New(cfg)
	if err != nil {
		return fetchReport{}, err
	}
	defer c.CloseIdle()
	bar := a.NewBar("fetch")
	rep, err := c.ReadEpoch(ctx, client.Epoch{
		Options: x.plan.opt, AllRanks: x.allRanks, Connections: x.parallel, Dir: x.output, Unproved: x.noManifest, Progress: bar.Set,
	})
	bar.End()
	if err != nil {
		return fetchReport{}, err
	}
	return newFetchReport(rep), nil
}
