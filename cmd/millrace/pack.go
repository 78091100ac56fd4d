package main

import (
	"context"
	"io"
	"runtime"

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
		Long: `Packs the files under each SOURCE into tar shards under DESTINATION, a bucket's prefix or a
directory, and indexes them. The shards follow the WebDataset convention and can be read without
Millrace. The same input gives the same bytes. Safe to run again after a kill: shards
that are finished are not sent again.

Several machines share the work where all of them see the files: --part 3/16 packs and scans shards
3, 19, 35 and so on. Two machines that do the same part harm nothing. When all 16 are done, the
command without --part checks the shards, reads none, and publishes the index. If shards are missing
it fails and says of which parts; --part rest packs them here.

With --label-from-directory each sample of ./photos/cat and ./photos/dog gets a member .cls: 0 for
cat, 1 for dog. The index keeps the names.`,
		Example: "  millrace pack ./photos s3://bucket/photos\n  millrace pack ./photos 's3://bucket/photos?endpoint=http://minio:9000&profile=team-b'\n  millrace pack ./a ./b ./shards --key path --shard-size 64MiB\n  millrace pack ./photos s3://bucket/photos --label-from-directory\n  millrace pack ./photos s3://bucket/photos --part 0/16  # and 1/16 to 15/16 on other machines, then\n  millrace pack ./photos s3://bucket/photos              # checks all parts, and publishes the index",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x indexFlags
			var opt pack.Options
			var byDirectory bool
			var l location.Location
			f.Size(&opt.ShardSize, "shard-size", pack.DefaultShardSize, "target size of a shard")
			f.Choice(&opt.Key, "key", pack.KeyGroup, "what makes a sample: files whose names differ in the extension alone, or each file", pack.KeyGroup, pack.KeyPath)
			f.Flag(&byDirectory, "label-from-directory", "label each sample by the directory that it lies in: a member .cls with the number of the class")
			f.Text(&opt.Match, "match", "", matchUsage)
			f.Flag(&opt.Hidden, "hidden", hiddenUsage)
			f.Flag(&opt.SkipSpecial, "skip-special", "leave out links, devices and pipes instead of refusing them")
			f.Text(&opt.TempDir, "temp-dir", "", "`DIR` for shards too large for memory (default the system's)")
			x.define(f)
			f.Output(a.App)
			check := func(args []string) {
				x.check(f)
				l = one(f, args[len(args)-1])
				l.PutBeside() // the shards
				for _, source := range args[:len(args)-1] {
					if l.Inside(source) {
						f.Fault("%s lies in %s, which is to be packed: another run would pack the shards of this one", l, source)
					}
				}
				if byDirectory {
					opt.Label = pack.LabelDirectory
				}
				checkMatch(f, opt.Match)
				if opt.ShardSize < 1 {
					f.Fault("--shard-size 0B: want at least 1B")
				}
			}
			return check, func(ctx context.Context, args []string) error {
				x.opt.Match, x.opt.Hidden = "*.tar", opt.Hidden // whatever else is stored there
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

func (a *app) packAndIndex(ctx context.Context, sources []string, s *location.Stores, st objstore.Store, l location.Location, opt pack.Options, build build.Options) (indexing.PackResult, error) {
	b := a.NewBar(ctx, "pack")
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
