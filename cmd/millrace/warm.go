package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/gateway/address"
	"github.com/millrace-data/millrace/internal/words"
)

// warmReport is the result of warm.
type warmReport struct {
	client.WarmProgress
	Seconds float64 `json:"seconds"`
}

func (a *app) warm() *cobra.Command {
	return a.Build(cli.Command{
		Use: "warm GATEWAY[/NAME]", Short: "Load an epoch into the caches of a gateway",
		Long: `Loads an epoch's data into a gateway before a job reads it, in the order of the job: into memory up
to the read-ahead, then into the disk cache. It ends when all data are loaded or the caches are
full. A second run skips loaded data. Use the job's plan parameters, which set the order.`,
		Example: "  millrace warm http://gw:8080/imagenet --epoch 3 --seed 7",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var p planFlags
			p.define(f, address.Order|address.Choice|address.Batching)
			check := func(args []string) { served(f, args, &p.dataset); gateways(f, args) }
			return check, func(ctx context.Context, args []string) error {
				return a.ask(ctx, args[0], p.dataset, func(c *client.Client) error { return a.runWarm(ctx, c, &p) })
			}
		},
	})
}

func (a *app) runWarm(ctx context.Context, c *client.Client, p *planFlags) error {
	start := time.Now()
	bar := a.NewBar("warm")
	w, err := c.Warm(ctx, p.opt, bar.Set)
	bar.End()
	if err != nil {
		return err
	}
	rep := warmReport{WarmProgress: w, Seconds: time.Since(start).Seconds()}
	return a.Print(rep, func(w io.Writer) { printWarm(w, rep) })
}

func printWarm(w io.Writer, r warmReport) {
	fmt.Fprintf(w, "epoch %d of %s: %s, %s, loaded in %.2f s\n", r.Epoch, r.Dataset,
		words.Count(r.Chunks, "chunk", "chunks"), humanize.IBytes(r.Bytes), r.Seconds)
	if r.Done {
		fmt.Fprintf(w, "  all %s are in the caches\n", words.Count(r.Samples, "sample", "samples"))
		return
	}
	fmt.Fprintf(w, "  loaded up to sample %s of %s: the caches are full\n", humanize.Comma(int64(r.Next)), humanize.Comma(int64(r.Samples)))
}
