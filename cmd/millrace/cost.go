package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/costs"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

type costReport struct {
	Digest     string `json:"cost"`
	Name       string `json:"name"`
	Generation string `json:"generation"`
	New        bool   `json:"new"`
	costs.Summary
}

// costFlags select the costs.
type costFlags struct {
	name    string
	from    string
	missing *uint64
	spec    costs.Spec // nil: from is a file
}

func (a *app) cost() *cobra.Command {
	cmd := a.Build(cli.Command{
		Use: "cost NAME DATASET --from SPEC", Short: "Store a cost of each sample, such as its tokens",
		Long: `Stores a cost of each sample, a whole number below 2^32, under a name, which never changes. SPEC is:

  len(FIELD)    elements of a list or array, bytes of a text or binary value
  FIELD         an integer; FIELD*FIELD is a product
  bytes(PART)   stored length of a part; reads only the index
  FILE          lines of key, tab, number (-: stdin); if several shards have a key: tab, shard

A field is a part, a column, or a field of a JSON part, such as text or meta.width.`,
		Example: `  millrace cost tokens s3://bucket/chat --from 'len(input_ids)'
  millrace cost pixels ./photos --from json.width*json.height
  millrace cost tokens ./shards --from ./lengths.tsv --missing 512`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x costFlags
			var l location.Location
			f.Text(&x.from, "from", "", "`SPEC` len(FIELD), FIELD, FIELD*FIELD, bytes(PART) or FILE")
			f.Optional(&x.missing, "missing", "cost of samples without one (default: such a sample is an error)")
			check := func(args []string) {
				x.name, l = args[0], one(f, args[1])
				x.check(f)
			}
			return check, onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.runCost(ctx, &x, d) })
		},
	})
	cmd.AddCommand(a.list("cost", "List the cost tables of a dataset",
		"Lists the cost tables of a dataset: digest, names, number of samples, generation, bytes, age.", inventory.ListCosts))
	return cmd
}

func (x *costFlags) check(f *cli.Flags) {
	if err := selection.CheckCostName(x.name); err != nil {
		f.Fault("%w", err)
	}
	if x.missing != nil && *x.missing > math.MaxUint32 {
		f.Fault("--missing %d: must be at most 2^32-1", *x.missing)
	}
	if x.from == "" {
		f.Fault("--from is required")
	}
	info, err := os.Stat(x.from)
	if x.from == "" || x.from == "-" || strings.Contains(x.from, "/") || err == nil && !info.IsDir() {
		return
	}
	if x.spec, err = costs.ParseSpec(x.from); err != nil {
		f.Fault("--from %w", err)
	}
}

func (a *app) runCost(ctx context.Context, x *costFlags, d location.Dataset) error {
	st, err := d.Selections()
	if err != nil {
		return err
	}
	c, err := a.sampleCosts(ctx, x, d)
	if err != nil {
		return fmt.Errorf("cost of %s: %w", d.Loc, err)
	}
	rep := costReport{Name: x.name, Generation: d.Index.Generation()}
	rep.Digest, rep.New, err = st.WriteCosts(ctx, rep.Generation, d.Index.Samples(), func(yield func([]uint32, error) bool) { yield(c.All, nil) })
	if err == nil && !rep.New {
		err = checkStored(ctx, st, d, rep.Digest)
	}
	if err == nil {
		err = st.NameCosts(ctx, rep.Generation, x.name, rep.Digest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.Loc, err)
	}
	rep.Summary = c.Summary()
	return a.Print(rep, func(w io.Writer) {
		fmt.Fprintf(w, "costs %s of %s: %s", x.name, d.Loc, words.Count(rep.Samples, "sample", "samples"))
		if rep.Missing > 0 {
			fmt.Fprintf(w, ", %s without a value have %d", humanize.Comma(int64(rep.Missing)), *x.missing)
		}
		fmt.Fprintf(w, "\n  minimum %d, mean %.1f, median %d, p99 %d, maximum %d\n  cost %s\n", rep.Minimum, rep.Mean, rep.Median, rep.P99, rep.Maximum, rep.Digest)
	})
}

// checkStored checks that a table that was stored before is not damaged.
func checkStored(ctx context.Context, st *selection.Store, d location.Dataset, digest string) error {
	c, err := st.OpenCosts(ctx, digest, d.Index.Generation(), d.Index.First())
	if err != nil {
		return fmt.Errorf("%w: remove .millrace/cost/%s, and run this command again", err, digest)
	}
	return c.Close()
}

// sampleCosts computes or reads the costs of all samples.
func (a *app) sampleCosts(ctx context.Context, x *costFlags, d location.Dataset) (c costs.Costs, err error) {
	if x.spec != nil {
		b := a.NewBar("cost")
		defer b.End()
		return costs.Compute(ctx, d, x.spec, x.missing, b.Update)
	}
	named, err := readKeys(x.from, func(in io.Reader) ([]selection.NamedSample, error) { return selection.ReadNamed(in, "") })
	if err != nil {
		return c, err
	}
	return costs.Read(ctx, d.Index, named, x.missing)
}
