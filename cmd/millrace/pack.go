package main

import (
	"context"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex/build"
	"github.com/millrace-data/millrace/chunkindex/pack"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/indexing"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (a *app) pack() *cobra.Command {
	return a.Build(cli.Command{
		Use: "pack SOURCE... DESTINATION", Short: "Pack files into tar shards and index them",
		Long: `Packs the files of each SOURCE into tar shards at DESTINATION, a bucket's prefix or a directory,
and indexes them. The shards follow the WebDataset convention. The same input gives the same bytes,
and an interrupted run resumes. --part 3/16 shares the work between machines that see the same
files; the command without --part publishes when all parts are done.`,
		Example: `  millrace pack ./photos s3://bucket/photos --label-from-directory
  millrace pack ./photos s3://bucket/photos --part 0/16  # and 1/16 to 15/16 on other machines, then
  millrace pack ./photos s3://bucket/photos              # publish the index`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x indexFlags
			var opt pack.Options
			var byDirectory bool
			var l location.Location
			f.Size(&opt.ShardSize, "shard-size", pack.DefaultShardSize, "target size of a shard")
			f.Choice(&opt.Key, "sample-key", pack.KeyGroup, sampleKeyUsage, pack.KeyGroup, pack.KeyPath)
			f.Flag(&byDirectory, "label-from-directory", "add a .cls member to each sample: the class number of its directory")
			f.Texts(&opt.Tables, "table", nil, "`FILE` table (JSON, COCO, CSV) of rows that name files, added as .json; repeatable")
			f.Text(&opt.Match, "match", "", matchUsage)
			f.Flag(&opt.Hidden, "hidden", hiddenUsage)
			f.Flag(&opt.SkipSpecial, "skip-special", "skip links, devices and pipes (default: fail)")
			f.Text(&opt.TempDir, "temp-dir", "", "`DIR` directory for temporary files of large shards (default the system's)")
			x.define(f)
			check := func(args []string) {
				x.check(f)
				l = one(f, args[len(args)-1])
				l.PutBeside() // the shards
				for _, source := range args[:len(args)-1] {
					checkSource(f, l, source)
				}
				if byDirectory {
					opt.Label = pack.LabelDirectory
				}
				checkMatch(f, opt.Match)
				if opt.ShardSize < 1 {
					f.Fault("--shard-size must be at least 1B")
				}
			}
			return check, func(ctx context.Context, args []string) error {
				x.opt.Match, x.opt.Hidden = "*.tar", opt.Hidden // other objects are ignored
				opt.Parallel = min(x.opt.Parallel, runtime.GOMAXPROCS(0))
				opt.Share = x.opt.Share
				join := f.CommandLine("pack", args, "part", "json")
				return x.store.With(ctx, l, true, func(ctx context.Context, st objstore.Store) error {
					rep, err := a.packAndIndex(ctx, args[:len(args)-1], &x.store, st, l, opt, x.opt)
					if err != nil {
						return indexing.AskForParts(join, l, err)
					}
					x.sayInherited(a, l)
					return a.Print(rep, func(w io.Writer) { rep.Print(w, l); x.printJoin(w, join) })
				})
			}
		},
	})
}

func checkSource(f *cli.Flags, l location.Location, source string) {
	if strings.Contains(source, "://") {
		f.Fault("SOURCE %s must be a path on this machine, not a URL: download the objects of a bucket first, as with 'rclone copy'", source)
	}
	if l.Inside(source) {
		f.Fault("%s is inside the source %s: another run would pack its own shards", l, source)
	}
}

func (a *app) packAndIndex(ctx context.Context, sources []string, s *location.Stores, st objstore.Store, l location.Location, opt pack.Options, build build.Options) (indexing.PackResult, error) {
	b := a.NewBar("pack")
	opt.Progress = b.Update
	p, err := pack.Pack(ctx, sources, st, l.Prefix, opt)
	b.End()
	if err != nil {
		return indexing.PackResult{}, err
	}
	build.Classes, build.Share.Has = p.Classes, p.Has
	rep := indexing.PackResult{Report: p}
	if p.Part == nil || p.Part.Shards > 0 {
		if rep.Index, err = a.buildIndex(ctx, s, st, &l, build); err != nil {
			return indexing.PackResult{}, err
		}
	}
	if rep.Skipped == nil {
		rep.Skipped = []string{}
	}
	return rep, nil
}
