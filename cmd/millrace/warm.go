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

// warmReport is what a warming has done.
type warmReport struct {
	client.WarmProgress
	Seconds float64 `json:"seconds"`
}

func (a *app) warm() *cobra.Command {
	return a.Build(cli.Command{
		Use: "warm GATEWAY[/NAME]", Short: "Fill memory and disk of a gateway for an epoch",
		Long: `Has a gateway bring what an epoch needs before a job asks for it, in the order in which
the job will: into memory as far as it looks ahead, then to its disk tier (--disk-cache
of millrace serve). It ends when the whole epoch is warm, or when neither has room for
more. It may be interrupted and run again: what is there already is passed over.

Give the plan parameters that the job will use, since they decide what comes first.`,
		Example: `  millrace warm http://gw:8080
  millrace warm http://gw:8080 --dataset imagenet --epoch 3 --seed 7
  millrace warm http://gw:8080 --epoch 0 --shuffle window --window 128 --json`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var p planFlags
			p.define(f, address.Order|address.Choice|address.Batching)
			f.Output(a.App)
			check := func(args []string) { served(f, args, &p.dataset); gateways(f, args) }
			return check, func(ctx context.Context, args []string) error {
				rep, err := a.runWarm(ctx, args[0], &p)
				if err != nil {
					return err
				}
				return a.Print(rep, func(w io.Writer) { printWarm(w, rep) })
			}
		},
	})
}

func (a *app) runWarm(ctx context.Context, gateway string, p *planFlags) (warmReport, error) {
	c, err := a.reached(ctx, gateway, p.dataset)
	if err != nil {
		return warmReport{}, err
	}
	defer c.CloseIdle()
	start := time.Now()
	bar := a.NewBar(ctx, "warm")
	defer bar.End()
	w, err := c.Warm(ctx, p.opt, bar.Set)
	return warmReport{WarmProgress: w, Seconds: time.Since(start).Seconds()}, err
}

func printWarm(w io.Writer, r warmReport) {
	fmt.Fprintf(w, "epoch %d of %s: %s, %s, brought in %.2f s\n", r.Epoch, r.Dataset,
		words.Count(r.Chunks, "chunk", "chunks"), humanize.IBytes(r.Bytes), r.Seconds)
	if r.Done {
		fmt.Fprintf(w, "  all %s are warm\n", words.Count(r.Samples, "sample", "samples"))
		return
	}
	fmt.Fprintf(w, "  warm up to sample %s of %s: no tier has room for more\n", humanize.Comma(int64(r.Next)), humanize.Comma(int64(r.Samples)))
}
