package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/garbage"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (a *app) gc() *cobra.Command {
	return a.Build(cli.Command{
		Use: "gc DATASET", Short: "Remove what nothing needs any more from beside a dataset",
		Long: `Removes what lies beside a dataset, is older than --grace and is not needed any more:

  indexes       that the dataset's pointer does not name
  subsets, quarantines, snapshots
                of a generation whose index is gone, once another one has been current for
                --grace; all others stay, since a URL may name them
  reports       of losses, once a snapshot of their epoch holds them or their generation is
                gone; --reports-older removes old ones whether or not a snapshot holds them

Shards are never touched. A gateway that still pins an old generation keeps serving it: it has
its own copy of the index. --dry-run removes nothing and prints what would go.`,
		Example: `  millrace gc s3://bucket/imagenet --dry-run
  millrace gc s3://bucket/imagenet --grace 72h
  millrace gc s3://bucket/imagenet --reports-older 720h`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			var opt garbage.Options
			var dry bool
			f.Duration(&opt.Grace, "grace", 24*time.Hour, "age below which objects are kept: a run may be about to publish them")
			f.Duration(&opt.ReportsOlder, "reports-older", 0, "age from which reports go although they were never frozen (default: they stay)")
			f.Set.Lookup("reports-older").DefValue = ""
			f.Flag(&dry, "dry-run", "print what would go, and remove nothing")
			defineStores(&s, f)
			f.Output(a.App)
			check := func(args []string) { checkStores(&s, f); l = one(f, args[0]).OfIndex() }
			return check, func(ctx context.Context, _ []string) error {
				return s.With(ctx, l, false, func(ctx context.Context, st objstore.Store) error { return a.runGC(ctx, st, l, opt, dry) })
			}
		},
	})
}

func (a *app) runGC(ctx context.Context, st objstore.Store, l location.Location, opt garbage.Options, dry bool) error {
	found, err := garbage.Find(ctx, st, l.Prefix, opt)
	if err != nil {
		return location.Explain(ctx, "gc", l, st, err)
	}
	if !dry {
		err = found.Apply(ctx) // what was removed before a fault is printed too
	}
	rep := found.Report(dry)
	return errors.Join(err, a.Print(rep, rep.Print))
}
