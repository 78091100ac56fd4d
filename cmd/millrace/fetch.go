package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/shuffle"
)

type fetchFlags struct {
	plan        planFlags
	allRanks    bool
	connections int
	deadline    time.Duration
	discard     bool
	output      string
	noManifest  bool
}

func (x *fetchFlags) define(f *cli.Flags) {
	x.plan.define(f)
	f.Count(&x.plan.opt.From, "from", 0, "first batch `N`")
	f.Count(&x.plan.opt.Until, "until", 0, "stop before batch `N` (default the end)")
	f.Flag(&x.allRanks, "all-ranks", "read the shares of all ranks side by side")
	f.Number(&x.connections, "connections", 8, "`N` batches under way at a time")
	f.Duration(&x.deadline, "deadline", client.DefaultDeadline, "`DURATION` for one batch, retries included")
	f.Flag(&x.discard, "discard", "check the batches and keep none")
	f.Text(&x.output, "output", "", "write each batch to a file in `DIR`")
	f.Text(&x.plan.opt.Format, "format", "", "`FORM` of the batches, with --no-manifest (default the dataset's own)")
	f.Text(&x.plan.opt.Fields, "fields", "", "`NAMES` of the parts to keep, with --no-manifest (default all)")
	f.Flag(&x.noManifest, "no-manifest", "do not fetch manifests: bytes are checked, exactly-once is not")
}

func (x *fetchFlags) check(f *cli.Flags, args []string) {
	gatewaysOrNames(f, args)
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
	Dataset    string  `json:"dataset"`
	Generation string  `json:"generation"`
	Epoch      uint64  `json:"epoch"`
	Batches    uint64  `json:"batches"`
	Samples    uint64  `json:"samples"`
	Padded     uint64  `json:"padded"`
	Bytes      uint64  `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	SamplesPS  float64 `json:"samples_per_s"`
	MBPS       float64 `json:"mb_per_s"`
	Proved     string  `json:"proved"` // what was checked beyond the bytes
}

func (r *fetchReport) rates(d time.Duration) {
	r.Seconds = d.Seconds()
	if r.Seconds > 0 {
		r.SamplesPS = float64(r.Samples) / r.Seconds
		r.MBPS = float64(r.Bytes) / r.Seconds / 1e6
	}
}

func (a *app) fetch() *cobra.Command {
	return a.Build(cli.Command{
		Use: "fetch GATEWAY...", Short: "Read an epoch, check every byte, print the rate", Args: 1, More: true,
		Long: `Reads the batches of an epoch from one or more gateways. Every body is compared with its
length and CRC-32C; the manifests prove that no sample came twice and, if the whole epoch
was read, that every sample came. With --output each batch becomes a file; running the
same command again writes the same files.

dns:NAME:PORT stands for all gateways that a name has addresses of. The gateway that
answers quickest is asked, and another one where it fails; what a broken body lacks is
asked for alone. With --split locality and several gateways listed, rank R of W is
read from the gateway at place R*P/W of the P listed: list them by their ordinals,
and give their number as --homes.`,
		Example: `  millrace fetch http://gw:8080 --epoch 0 --discard
  millrace fetch http://gw-0:8080 http://gw-1:8080 --epoch 3 --from 170 --rank 1 --world-size 4 --output ./batches
  millrace fetch dns:gateways.job-a.svc:8080 --discard
  millrace fetch http://gw-0:8080 http://gw-1:8080 --world-size 8 --all-ranks --split locality --homes 2 --discard`,
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
	fmt.Fprintf(w, "epoch %d of %s: %s in %s, %s, in %.2f s\n", r.Epoch, r.Dataset, cli.Count(r.Samples, "sample", "samples"),
		cli.Count(r.Batches, "batch", "batches"), humanize.IBytes(r.Bytes), r.Seconds)
	fmt.Fprintf(w, "  %s samples/s, %.1f MB/s\n", humanize.Comma(int64(r.SamplesPS)), r.MBPS)
	fmt.Fprintf(w, "  every length and CRC-32C matched; %s\n", r.Proved)
}

// epochReader reads one epoch for all its ranks.
type epochReader struct {
	client *client.Client
	flags  *fetchFlags
	ledger *client.Ledger // nil without manifests
	bar    *cli.Bar

	plan resolved

	mu   sync.Mutex // guards what follows
	rep  fetchReport
	done int64 // bytes
}

// resolved is what a gateway makes of plan parameters, its dataset's defaults and generation included.
type resolved struct {
	Batches    uint64 `json:"batches"`
	Samples    uint64 `json:"samples"`
	Parameters struct {
		Generation string `json:"generation"`
		Tail       string `json:"tail"`
		BatchSize  uint64 `json:"batch_size"`
		Importance string `json:"importance"`
		Quarantine string `json:"quarantine"`
		Mixture    bool   `json:"mixture"`
	} `json:"parameters"`
}

// repeats says what comes exactly once in an epoch that may deliver a sample again; "" for one that does not.
func (p resolved) repeats() string {
	switch {
	case p.Parameters.Importance != "":
		return "draw"
	case p.Parameters.Quarantine != "" || p.Parameters.Mixture:
		return "position"
	}
	return ""
}

// resolve asks for the plan of the epoch.
func (x *fetchFlags) resolve(ctx context.Context, c *client.Client, dataset string) (plan resolved, err error) {
	at := fmt.Sprintf("/v1/datasets/%s/epochs/%d", url.PathEscape(dataset), x.plan.opt.Epoch)
	if err := c.JSON(ctx, at, x.plan.query(), &plan); err != nil {
		return resolved{}, err
	}
	if plan.Parameters.Generation == "" || plan.Parameters.BatchSize == 0 {
		return resolved{}, fmt.Errorf("read %s: no plan: %w", at, client.ErrProtocol)
	}
	return plan, nil
}

// config has each rank ask its own gateway first, where shares follow homes and gateways are listed.
func (x *fetchFlags) config(gateways []string) client.Config {
	cfg := client.Config{Gateways: gateways, Dataset: x.plan.dataset, Deadline: x.deadline}
	named := func(g string) bool { return strings.HasPrefix(g, "dns:") }
	if x.plan.opt.Split == string(shuffle.Locality) && len(gateways) > 1 && !slices.ContainsFunc(gateways, named) {
		cfg.Home = client.HomeByRank
	}
	return cfg
}

func (a *app) runFetch(ctx context.Context, x *fetchFlags, args []string) (fetchReport, error) {
	c, err := client.New(x.config(args))
	if err != nil {
		return fetchReport{}, err
	}
	defer c.CloseIdle()
	name, err := datasetName(ctx, c, x.plan.dataset)
	if err != nil {
		return fetchReport{}, err
	}
	plan, err := x.resolve(ctx, c, name)
	if err != nil {
		return fetchReport{}, err
	}
	if x.output != "" {
		if err := os.MkdirAll(x.output, 0o777); err != nil {
			return fetchReport{}, fmt.Errorf("write batches: %w", err)
		}
	}
	r := &epochReader{client: c, flags: x, plan: plan}
	r.rep = fetchReport{Dataset: name, Generation: plan.Parameters.Generation, Epoch: x.plan.opt.Epoch}
	switch {
	case x.noManifest:
	case plan.repeats() != "":
		r.ledger = client.NewDrawLedger(plan.Samples)
	default:
		r.ledger = client.NewLedger(plan.Samples)
	}
	start := time.Now()
	r.bar = a.NewBar(ctx, "fetch")
	err = r.read(ctx)
	r.bar.End()
	if err != nil {
		return fetchReport{}, err
	}
	r.rep.rates(time.Since(start))
	r.rep.Proved, err = r.prove()
	return r.rep, err
}

// read reads the shares of one rank or of all, under the generation of the plan.
func (r *epochReader) read(ctx context.Context) error {
	opt := r.flags.plan.opt
	opt.Manifest = r.ledger != nil
	opt.Generation = r.plan.Parameters.Generation
	ranks := uint64(1)
	if r.flags.allRanks {
		ranks = max(opt.WorldSize, 1)
	}
	// Whole connections to each rank; the reader itself waits for one of them.
	opt.Prefetch = max(r.flags.connections/int(min(ranks, 1<<20)), 1) - 1
	if opt.Prefetch == 0 {
		opt.Prefetch = -1
	}
	if ranks == 1 {
		return r.rank(ctx, opt)
	}
	g, ctx := errgroup.WithContext(ctx)
	for rank := range ranks {
		o := opt
		o.Rank = rank
		g.Go(func() error { return r.rank(ctx, o) })
	}
	return g.Wait()
}

func (r *epochReader) rank(ctx context.Context, opt client.Options) error {
	for b, err := range r.client.Batches(ctx, opt) {
		if err != nil {
			return err
		}
		if err := r.take(b, opt); err != nil {
			return err
		}
	}
	return nil
}

// take notes and keeps one batch.
func (r *epochReader) take(b *client.Batch, opt client.Options) error {
	if r.ledger != nil {
		r.ledger.Add(b)
	}
	if r.flags.output != "" {
		if err := writeBatch(r.flags.output, b, opt); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.Batches++
	r.rep.Samples += uint64(b.Samples())
	r.rep.Padded += b.Padded
	r.rep.Bytes += uint64(len(b.Bytes()))
	r.done += int64(len(b.Bytes()))
	until := r.plan.Batches
	if opt.Until != 0 {
		until = min(until, opt.Until)
	}
	shares := until - opt.From
	if r.flags.allRanks {
		shares *= max(opt.WorldSize, 1)
	}
	r.bar.Set(r.done, int64(float64(r.done)/float64(r.rep.Batches)*float64(shares)))
	return nil
}

// prove closes the books: the whole epoch exactly once, or a part without a repetition. Of an epoch that may deliver a sample
// again the books are of what does come once, as resolved.repeats says: draws or positions.
func (r *epochReader) prove() (string, error) {
	if r.ledger == nil {
		return "manifests were not read", nil
	}
	what := "sample"
	if again := r.plan.repeats(); again != "" {
		what = again
	}
	opt, samples := r.flags.plan.opt, r.plan.Samples
	whole := opt.From == 0 && (opt.Until == 0 || opt.Until >= r.plan.Batches) && (r.flags.allRanks || opt.WorldSize <= 1)
	if !whole {
		return fmt.Sprintf("no %s came twice (%s of %s %ss were asked for)", what,
			humanize.Comma(int64(r.ledger.Seen())), humanize.Comma(int64(samples)), what), r.ledger.CheckPart()
	}
	if r.plan.Parameters.Tail == "drop" {
		tail := samples % r.plan.Parameters.BatchSize
		if got := r.ledger.Missing(); got != tail {
			return "", fmt.Errorf("%w: %d %ss missing, the tail that was dropped has %d", errCorrupt, got, what, tail)
		}
		return fmt.Sprintf("no %s came twice, %d of the tail were dropped as the plan says", what, tail), r.ledger.CheckPart()
	}
	return "every " + what + " came exactly once", r.ledger.Check()
}

// writeBatch writes a batch to a file of its own, whole or not at all.
func writeBatch(dir string, b *client.Batch, opt client.Options) error {
	name := fmt.Sprintf("batch-%06d", b.Number)
	if opt.WorldSize > 1 {
		name += fmt.Sprintf(".rank-%d-of-%d", opt.Rank, opt.WorldSize)
	}
	name += extension(b.ContentType)
	tmp, err := os.CreateTemp(dir, ".batch-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = tmp.Write(b.Bytes())
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func extension(contentType string) string {
	switch contentType {
	case "application/x-tar", "":
		return ".tar"
	case "application/x-ndjson", "application/jsonl":
		return ".jsonl"
	}
	return ".bin"
}
