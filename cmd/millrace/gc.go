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
		Use: "gc DATASET", Short: "Remove what nothing needs any more from beside a dataset",
		Long: `Removes what lies beside a dataset and is not needed any more:

  generations   an index with all that belongs to it: subsets, quarantines, snapshots, reports. One
                stays if a pointer of the dataset names it; if it was current within --keep, or
                something was written for it in that time; if it is one of the --keep-last that
                were current last; with --keep-used, if anything belongs to it
  reports       of losses, once a snapshot of their epoch holds them; --reports-older removes old
                ones whether or not a snapshot holds them

All indexes of a dataset lie together, so an address with a name, DATASET#NAME, means the same as
one without. Shards are never touched, and what is younger than --grace stays. Gateways open any
generation that stays for URLs that name it; one that is gone they serve until they close it.
--dry-run removes nothing and prints what would go, and why.`,
		Example: `  millrace gc s3://bucket/imagenet --keep 14d --dry-run
  millrace gc s3://bucket/imagenet --keep 14d --keep-last 5
  millrace gc s3://bucket/imagenet --reports-older 30d`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			var opt garbage.Options
			var dry bool
			f.Duration(&opt.Grace, "grace", 24*time.Hour, "age below which objects are kept: a run may be about to publish them")
			f.Duration(&opt.Keep, "keep", 0, "time in which generations stay that were current, or that something was written for (default --grace)")
			f.Set.Lookup("keep").DefValue = ""
			f.Number(&opt.KeepLast, "keep-last", 1, "generations that stay, the last ones that were current")
			f.Flag(&opt.KeepUsed, "keep-used", "keep generations that a subset, a quarantine, a snapshot or a report belongs to")
			f.Duration(&opt.ReportsOlder, "reports-older", 0, "age from which reports go although they were never frozen (default: they stay)")
			f.Set.Lookup("reports-older").DefValue = ""
			f.Flag(&dry, "dry-run", "print what would go, and remove nothing")
			f.Output(a.App)
			check := func(args []string) { l = one(f, args[0]).OfIndex() }
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
