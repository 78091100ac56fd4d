package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	plan        planFlags
	allRanks    bool
	connections int
	deadline    time.Duration
	discard     bool
	output      string
	home        string
	noManifest  bool
}

func (x *fetchFlags) define(f *cli.Flags) {
	x.plan.define(f, ^address.Group(0), "table")
	f.Count(&x.plan.opt.From, "from", 0, "number of the first batch")
	f.Positive(&x.plan.opt.Until, "until", "number of the batch to stop before (default the end)")
	f.Flag(&x.allRanks, "all-ranks", "read the shares of all ranks side by side")
	f.Number(&x.connections, "connections", 8, "batches under way at a time")
	f.Duration(&x.deadline, "deadline", client.DefaultDeadline, "time for one batch, retries included")
	f.Flag(&x.discard, "discard", "check the batches and keep none")
	f.Text(&x.output, "output", "", "write each batch to a file in `DIR`")
	f.Choice(&x.home, "home", "", "the gateway that a rank asks first: rank R of W that at place R*P/W of P (default the near one; rank with --share locality)", "rank")
	f.Flag(&x.noManifest, "no-manifest", "do not fetch manifests: bytes are checked, exactly-once is not")
}

func (x *fetchFlags) check(f *cli.Flags, args []string) {
	served(f, args, &x.plan.dataset)
	gatewaysOf(f, x.config(args))
	x.plan.check(f)
	if x.discard == (x.output != "") {
		f.Fault("want either --discard or --output DIR")
	}
	if (x.plan.opt.Format != "" || x.plan.opt.Fields != "") && !x.noManifest {
		f.Fault("--format and --fields want --no-manifest: a manifest describes whole samples")
	}
	if x.connections == 0 {
		f.Fault("--connections 0: want at least 1")
	}
	if x.allRanks && x.plan.opt.Rank != 0 {
		f.Fault("--all-ranks and --rank exclude each other")
	}
	if u := x.plan.opt.Until; u != 0 && u <= x.plan.opt.From {
		f.Fault("--until %d: want more than --from, %d", u, x.plan.opt.From)
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
	Proved    string  `json:"proved"` // what was checked beyond the bytes
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

// proved says in words what was proved.
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
		Use: "fetch GATEWAY[/NAME]... --discard|--output DIR", Short: "Read an epoch, check every byte, print rates and latencies",
		Long: `Reads the batches of an epoch from one or more gateways. Every body is compared with its
length and CRC-32C; the manifests prove that no sample came twice and, if the whole epoch
was read, that every sample came. With --output each batch becomes a file. Running the same
command again goes on: a file with the length and CRC-32C of its batch is not fetched again.
With --discard it measures a gateway: --connections sets the load. The latency of a batch is
from the request until its last byte is checked, retries and manifest included.

http://gateways-{0..7}.NAME:PORT stands for eight gateways, srv:_http._tcp.NAME for those
of a service's SRV records, dns:NAME:PORT for all addresses of a name, unix:PATH for one
that listens at a Unix socket. The gateway that answers quickest is asked, and another
one where it fails; what a broken body lacks is asked for alone. With --home rank, and with
--share locality where several gateways are named, rank R of W is read from the gateway at
place R*P/W of the P named: name them in one order for all ranks, and give the number that
the job began with as --homes.`,
		Example: `  millrace fetch http://gw:8080 --epoch 0 --discard
  millrace fetch http://gw:8080/photos --batch-size 1024 --connections 32 --no-manifest --discard
  millrace fetch http://gw-0:8080 http://gw-1:8080 --epoch 3 --from 170 --rank 1 --world-size 4 \
    --output ./batches
  millrace fetch dns:gateways.job-a.svc:8080 --discard
  millrace fetch http://gateways-{0..3}.gateways:8080 --world-size 8 --all-ranks --share locality \
    --homes 4 --home rank --discard`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x fetchFlags
			x.define(f)
			f.Output(a.App)
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

// config has each rank ask its own gateway first, where that is asked for, or shares follow homes and several gateways are named in order.
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
	var answer *client.Error // such as "starting", which is worth --deadline
	if err := reach.Check(ctx, cfg); err != nil && !errors.As(err, &answer) {
		return fetchReport{}, fmt.Errorf("%s: %w", location.HideSecrets(strings.Join(args, ", ")), err)
	}
	c, err := client.New(cfg)
	if err != nil {
		return fetchReport{}, err
	}
	defer c.CloseIdle()
	bar := a.NewBar(ctx, "fetch")
	rep, err := c.ReadEpoch(ctx, client.Epoch{
		Options: x.plan.opt, AllRanks: x.allRanks, Connections: x.connections, Dir: x.output, Unproved: x.noManifest, Progress: bar.Set,
	})
	bar.End()
	if err != nil {
		return fetchReport{}, err
	}
	return newFetchReport(rep), nil
}
