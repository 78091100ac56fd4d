package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
)

// warmReport is what a warming has done.
type warmReport struct {
	Dataset string  `json:"dataset"`
	Epoch   uint64  `json:"epoch"`
	Next    uint64  `json:"next"`    // position up to which the epoch is warm
	Samples uint64  `json:"samples"` // positions of the epoch
	Chunks  uint64  `json:"chunks"`  // that were brought
	Bytes   uint64  `json:"bytes"`
	Full    bool    `json:"full"` // it ended because no tier has room for more
	Done    bool    `json:"done"` // the epoch is warm to its end
	Seconds float64 `json:"seconds"`
}

func (a *app) warm() *cobra.Command {
	return a.Build(cli.Command{
		Use: "warm GATEWAY", Short: "Fill memory and disk of a gateway for an epoch", Args: 1,
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
			p.defineEpoch(f)
			p.defineOrder(f)
			f.Output(a.App)
			check := func(args []string) { gateways(f, args) }
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

// runWarm asks for one piece after another, each from where the one before ended.
func (a *app) runWarm(ctx context.Context, gateway string, p *planFlags) (warmReport, error) {
	c, err := client.New(client.Config{Gateways: []string{gateway}, Dataset: p.dataset})
	if err != nil {
		return warmReport{}, err
	}
	defer c.CloseIdle()
	name, err := c.DatasetName(ctx)
	if err != nil {
		return warmReport{}, err
	}
	var set struct {
		Bytes uint64 `json:"bytes"`
	}
	at := "/v1/datasets/" + url.PathEscape(name)
	if err := c.JSON(ctx, at, nil, &set); err != nil {
		return warmReport{}, err
	}
	q := p.query()
	q.Set("epoch", strconv.FormatUint(p.opt.Epoch, 10))
	rep := warmReport{Dataset: name, Epoch: p.opt.Epoch}
	start := time.Now()
	bar := a.NewBar(ctx, "warm")
	defer bar.End()
	for !rep.Done && !rep.Full {
		q.Set("from", strconv.FormatUint(rep.Next, 10))
		if err := rep.step(ctx, c, at+"/warm", q); err != nil {
			return warmReport{}, err
		}
		// The epoch's bytes are taken to lie evenly over its positions.
		bar.Set(portion(set.Bytes, rep.Next, rep.Samples), int64(set.Bytes))
	}
	rep.Seconds = time.Since(start).Seconds()
	return rep, nil
}

// step asks for one piece and adds it up.
func (r *warmReport) step(ctx context.Context, c *client.Client, path string, q url.Values) error {
	var piece warmReport
	if err := c.Post(ctx, path, q, nil, &piece); err != nil {
		return err
	}
	if piece.Next < r.Next || piece.Next > piece.Samples {
		return fmt.Errorf("warm from position %d: next is %d of %d: %w", r.Next, piece.Next, piece.Samples, client.ErrProtocol)
	}
	r.Next, r.Samples, r.Full, r.Done = piece.Next, piece.Samples, piece.Full, piece.Done
	r.Chunks += piece.Chunks
	r.Bytes += piece.Bytes
	return nil
}

// portion returns part/whole of bytes.
func portion(bytes, part, whole uint64) int64 {
	if whole == 0 {
		return int64(bytes)
	}
	return int64(float64(bytes) * (float64(part) / float64(whole)))
}

func printWarm(w io.Writer, r warmReport) {
	fmt.Fprintf(w, "epoch %d of %s: %s, %s, brought in %.2f s\n", r.Epoch, r.Dataset,
		cli.Count(r.Chunks, "chunk", "chunks"), humanize.IBytes(r.Bytes), r.Seconds)
	if r.Done {
		fmt.Fprintf(w, "  all %s are warm\n", cli.Count(r.Samples, "sample", "samples"))
		return
	}
	fmt.Fprintf(w, "  warm up to sample %s of %s: no tier has room for more\n", humanize.Comma(int64(r.Next)), humanize.Comma(int64(r.Samples)))
}
