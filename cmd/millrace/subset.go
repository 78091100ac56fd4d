package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/inventory"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/selection"
)

type subsetReport struct {
	Digest     string        `json:"subset"` // of the split
	Generation string        `json:"generation"`
	New        bool          `json:"new"`
	Default    string        `json:"default"` // the split that a name alone means
	Salt       string        `json:"salt,omitempty"`
	Subsets    []subsetCount `json:"subsets"`
}

type subsetCount struct {
	Name    string `json:"name"`
	Part    uint64 `json:"part,omitempty"`
	Match   string `json:"match,omitempty"`
	Samples uint64 `json:"samples"`
}

func (a *app) subset() *cobra.Command {
	cmd := a.Build(cli.Command{
		Use: "subset DATASET --split NAME=PART,...", Short: "Cut a dataset into named subsets, such as train and val",
		Long: `Puts every sample into one of some named subsets, by a hash of its name: the parts are
relative to each other. With patterns in place of parts, --split 'train=train-*,val=val-*', a
sample goes with its shard: a pattern is as --match of 'millrace index' has it, and the first one
that takes the shard counts. Data that is added later moves no sample from one subset to another,
once the new generation is cut by the same rule. Nothing is copied: the bucket gets one small
object beside the index. The same command again changes nothing.

The first split of a generation is its default one: subset=train in a URL means it. Others are
named by their digests, subset=DIGEST:train. Another salt makes another split, independent
of the first.`,
		Example: "  millrace subset s3://bucket/imagenet --split train=90,val=10\n  millrace subset ./shards --split a=1,b=1 --salt experiment-7 --json\n  millrace subset s3://bucket/pairs --split 'val=val-*,train=*'",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var l location.Location
			var split, salt string
			var rule selection.Rule
			f.Text(&split, "split", "", "`NAME=PART,...`, the subsets and their parts, whole numbers, or patterns of shards")
			f.Text(&salt, "salt", "", "`TEXT` that makes another split of the same parts")
			defineStores(&s, f)
			f.Output(a.App)
			check := func(args []string) {
				checkStores(&s, f)
				l = one(f, args[0])
				var err error
				if rule, err = selection.ParseRule(split, salt); err != nil {
					f.Fault("--split %q: %v", split, err)
				}
			}
			return check, func(ctx context.Context, _ []string) error { return a.runSubset(ctx, &s, l, rule) }
		},
	})
	cmd.AddCommand(a.list("subset", "List the subsets of a dataset",
		"Lists the splits of a dataset by the digests that URLs name, with their parts,\ngeneration, bytes and age.", inventory.ListSubsets))
	return cmd
}

func (a *app) runSubset(ctx context.Context, s *location.Stores, l location.Location, rule selection.Rule) error {
	d, err := s.OpenIndex(ctx, l, chunkindex.OpenOptions{})
	if err != nil {
		return err
	}
	defer d.Close()
	st, err := d.Selections()
	if err != nil {
		return err
	}
	made, err := st.Split(ctx, d.Index, rule)
	if err != nil {
		return fmt.Errorf("%s: %w", l, err)
	}
	rep := subsetReport{Digest: made.Digest, Generation: d.Index.Generation(), New: made.New, Default: made.Default, Salt: rule.Salt}
	for i, p := range rule.Parts {
		rep.Subsets = append(rep.Subsets, subsetCount{p.Name, p.Size, p.Match, made.Counts[i]})
	}
	return a.Print(rep, func(w io.Writer) {
		if made.New {
			fmt.Fprintf(w, "cut %s\n", l)
		} else {
			fmt.Fprintf(w, "%s was cut so already\n", l)
		}
		for _, x := range rep.Subsets {
			fmt.Fprintf(w, "  %s: %s\n", x.Name, cli.Count(x.Samples, "sample", "samples"))
		}
		fmt.Fprintf(w, "  subset %s\n", made.Digest)
		if made.Default != made.Digest {
			fmt.Fprintf(w, "  name it in URLs, as subset=%s:%s: the default split stays %s\n", made.Digest, rule.Parts[0].Name, made.Default)
		}
	})
}
