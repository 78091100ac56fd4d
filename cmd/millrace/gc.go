package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/garbage"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (a *app) gc() *cobra.Command {
	return a.Build(cli.Command{
		Use: "gc DATASET", Short: "Delete old generations and reports of a dataset",
		Long: `Lists generations and loss reports that a dataset does not need any more, and deletes them after
--yes or a confirmation. It keeps generations that a pointer names, that were current or written to
within --keep, or that are among the last --keep-last current ones. It also keeps their subsets,
quarantines, cost tables and snapshots, and reports without a snapshot. It never deletes shards, nor
objects younger than --grace.`,
		Example: `  millrace gc s3://bucket/imagenet --keep 14d
  millrace gc s3://bucket/imagenet --reports-older 30d --yes`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			var opt garbage.Options
			var yes bool
			f.Duration(&opt.Grace, "grace", 24*time.Hour, "keep objects younger than this: a running command may still need them")
			f.Duration(&opt.Keep, "keep", 0, "keep generations used in the last DURATION (default the value of --grace)")
			f.Number(&opt.KeepLast, "keep-last", 0, 1, "keep the current generation and those before it, N in total")
			f.Flag(&opt.KeepUsed, "keep-used", "keep generations with subsets, quarantines, costs, snapshots or reports")
			f.Duration(&opt.ReportsOlder, "reports-older", 0, "delete older reports if no snapshot contains them (default never)")
			f.Flag(&yes, "yes", "delete without asking (default: ask on a terminal, else only list)")
			check := func(args []string) { l = one(f, args[0]).OfIndex() }
			return check, func(ctx context.Context, _ []string) error {
				return s.With(ctx, l, false, func(ctx context.Context, st objstore.Store) error { return a.runGC(ctx, st, l, opt, yes) })
			}
		},
	})
}

func (a *app) runGC(ctx context.Context, st objstore.Store, l location.Location, opt garbage.Options, yes bool) error {
	found, err := garbage.Find(ctx, st, l.Prefix, opt)
	if err != nil {
		return location.Explain(ctx, "gc", l, st, err)
	}
	if !yes && !a.JSON && len(found.Remove) > 0 {
		found.Report(true).Print(a.Stdout)
		if yes = a.Confirm("Delete these objects?"); !yes {
			return nil
		}
	}
	if yes {
		err = found.Apply(ctx) // even with an error, the report contains the objects removed before it
	}
	rep := found.Report(!yes)
	return errors.Join(err, a.Print(rep, rep.Print))
}
