package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

type subsetReport struct {
	Digest     string        `json:"subset"` // digest of the split
	Generation string        `json:"generation"`
	New        bool          `json:"new"`
	Default    string        `json:"default,omitempty"` // digest of the default split, which a name without a digest selects
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
		Use: "subset DATASET", Short: "Split a dataset into named subsets, such as train and val",
		Long: `With --into, assigns each sample to a subset by a hash of its name, with relative sizes such as
train=90,val=10, or by the first matching pattern of its shard: 'val=val-*,train=*'. New data never
move old samples to another subset. With --keys, stores a list of samples: subset=DIGEST:listed, and
subset=DIGEST:rest for all others. subset=train in a URL means the first split of the generation;
subset=DIGEST:train means any split. Nothing is copied.`,
		Example: "  millrace subset s3://bucket/imagenet --into train=90,val=10\n  millrace subset s3://bucket/pairs --into 'val=val-*,train=*'\n  millrace subset ./shards --keys train.txt",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var l location.Location
			var split, salt, file string
			var rule selection.Rule
			f.Text(&split, "into", "", "`NAME=PART,...` subsets, with relative sizes or patterns of shards")
			f.Text(&salt, "salt", "", "`TEXT` input of the hash: another text gives another split with the same sizes")
			f.Text(&file, "keys", "", "`FILE` file of samples, one per line: key, or key, tab, shard (-: stdin)")
			check := func(args []string) {
				l = one(f, args[0])
				if (split == "") == (file == "") {
					f.Fault("either --into or --keys is required")
					return
				}
				if file != "" {
					if salt != "" {
						f.Fault("--salt requires --into")
					}
					return
				}
				var err error
				if rule, err = selection.ParseRule(split, salt); err != nil {
					f.Fault("--into %q: %v", split, err)
				}
			}
			return check, onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.runSubset(ctx, d, rule, file) })
		},
	})
	cmd.AddCommand(a.list("subset", "List the subsets of a dataset",
		"Lists the splits of a dataset: digest, subsets, generation, bytes, age.", inventory.ListSubsets))
	return cmd
}

// runSubset splits a dataset by a rule, or stores a subset by the keys in a file.
func (a *app) runSubset(ctx context.Context, d location.Dataset, rule selection.Rule, file string) error {
	st, err := d.Selections()
	if err != nil {
		return err
	}
	if file != "" {
		return a.keepKeys(ctx, d, st, file)
	}
	made, err := st.Split(ctx, d.Index, rule)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Loc, err)
	}
	rep := newSubsetReport(d, made, rule.Parts)
	rep.Salt = rule.Salt
	return a.Print(rep, func(w io.Writer) {
		rep.print(w, d.Loc)
		if made.Default != made.Digest {
			fmt.Fprintf(w, "  name it in URLs, as subset=%s:%s: the default split stays %s\n", made.Digest, rule.Parts[0].Name, made.Default)
		}
	})
}

// keepKeys stores the subset of the samples whose keys a file lists.
func (a *app) keepKeys(ctx context.Context, d location.Dataset, st *selection.Store, file string) error {
	named, err := readKeys(file, linesOf)
	if err != nil {
		return err
	}
	runs, repeated, err := selection.FindKeys(ctx, d.Index, named)
	if err != nil {
		return fmt.Errorf("%s: keys of %s: %w", d.Loc, file, err)
	}
	c, err := selection.NewCut(ctx, d.Index, d.Index.First(), nil, []selection.Step{{Places: runs}})
	if err != nil {
		return fmt.Errorf("%s: %w", d.Loc, err)
	}
	made, err := st.KeepSubset(ctx, d.Index, c)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Loc, err)
	}
	if repeated > 0 {
		fmt.Fprintf(a.Stderr, "millrace: %s: %s again by another key: each counts once\n", file, words.Count(repeated, "sample is named", "samples are named"))
	}
	rep := newSubsetReport(d, made, []selection.Part{{Name: selection.Listed}, {Name: selection.Rest}})
	return a.Print(rep, func(w io.Writer) { rep.print(w, d.Loc) })
}

func newSubsetReport(d location.Dataset, made selection.SplitResult, parts []selection.Part) subsetReport {
	rep := subsetReport{Digest: made.Digest, Generation: d.Index.Generation(), New: made.New, Default: made.Default}
	for i, p := range parts {
		rep.Subsets = append(rep.Subsets, subsetCount{p.Name, p.Size, p.Match, made.Counts[i]})
	}
	return rep
}

func (rep subsetReport) print(w io.Writer, l location.Location) {
	if rep.New {
		fmt.Fprintf(w, "stored the subsets of %s\n", l)
	} else {
		fmt.Fprintf(w, "%s has these subsets already\n", l)
	}
	for _, x := range rep.Subsets {
		fmt.Fprintf(w, "  %s: %s\n", x.Name, words.Count(x.Samples, "sample", "samples"))
	}
	fmt.Fprintf(w, "  subset %s\n", rep.Digest)
}

// readKeys reads keys from a file, or from stdin for "-".
func readKeys[T any](file string, read func(io.Reader) ([]T, error)) (keys []T, err error) {
	in := os.Stdin
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		defer in.Close()
	}
	if keys, err = read(in); err != nil {
		return nil, fmt.Errorf("read keys from %s: %w", file, err)
	}
	return keys, nil
}

// linesOf returns the lines that are not empty.
func linesOf(in io.Reader) (keys []string, err error) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if key := strings.TrimSuffix(lines.Text(), "\r"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys, lines.Err()
}
