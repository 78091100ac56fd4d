// Package inventory lists datasets and their objects, as JSON and as tables for people.
package inventory

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/words"
)

// Description describes a dataset, with facts from its store.
type Description struct {
	client.Dataset
	Address string   `json:"address,omitempty"` // address for use with other commands
	Tokens  string   `json:"tokens,omitempty"`  // description of a sample of token files
	Changes *Changes `json:"changes,omitempty"` // changes of a directory's files since the index was made; nil: none known
	cure    string   // address with which `millrace index` indexes the changed files
}

// Indexed describes a dataset in a store in the same form as a gateway that serves it.
func Indexed(ctx context.Context, o location.Dataset) Description {
	x := o.Index
	d := x.Defaults()
	cure := o.Loc
	cure.PutBeside() // `millrace index` itself finds an index in the user's cache
	return Description{Address: o.Loc.Address(), Tokens: o.Tokens(ctx), Changes: changesOf(ctx, o), cure: cure.Address(), Dataset: client.Dataset{
		Name: o.Loc.Name, Generation: x.Generation(), Format: x.Format(), Samples: x.Samples(), Chunks: uint64(x.Chunks()), Shards: uint64(x.Shards()),
		Bytes: uint64(x.Bytes()), Plan: client.Defaults{BatchSize: d.BatchSize, Window: d.Window, Shuffle: d.Shuffle, Seed: d.Seed, Tail: d.Tail},
		Fields: fieldsOf(x.Fields()), OtherParts: x.OtherParts(),
	}}
}

func fieldsOf(fields []format.Field) []client.Field {
	var all []client.Field
	for _, f := range fields {
		all = append(all, client.Field{
			Name: f.Name, Encoding: f.Encoding, Type: f.Type, Logical: f.Logical, Shape: f.Shape, Nullable: f.Nullable, Classes: f.Classes, Children: fieldsOf(f.Children),
		})
	}
	return all
}

// PrintDataset writes a description of one dataset as text.
func PrintDataset(w io.Writer, d Description) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(t, "%s\t%v\n", name, value) }
	row("dataset", d.Name)
	row("generation", d.Generation)
	row("format", d.Format)
	row("samples", humanize.Comma(int64(d.Samples)))
	if d.Tokens != "" {
		row("a sample", d.Tokens)
	}
	row("chunks", humanize.Comma(int64(d.Chunks)))
	row("shards", humanize.Comma(int64(d.Shards)))
	row("bytes", fmt.Sprintf("%s (%s)", humanize.Comma(int64(d.Bytes)), humanize.IBytes(d.Bytes)))
	p := d.Plan
	row("default plan", fmt.Sprintf("shuffle %s, window %d, batch size %d, seed %d, tail %s", p.Shuffle, p.Window, p.BatchSize, p.Seed, p.Tail))
	if d.Changes != nil {
		row("files changed", fmt.Sprintf("%s: 'millrace index %s' with the options of the first time takes the files that are there now", d.Changes, d.cure))
	}
	t.Flush()
}

// ServedBy returns the datasets of a gateway, the default one first. Their addresses are accepted
// by other commands.
func ServedBy(ctx context.Context, c *client.Client, gateway string) ([]Description, error) {
	served, err := c.Datasets(ctx)
	all := make([]Description, len(served))
	for i, d := range served {
		all[i] = Description{Dataset: d, Address: location.OfServed(gateway, d.Name)}
	}
	return all, err
}

// PrintDatasets writes a table of datasets.
func PrintDatasets(w io.Writer, all []Description) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "dataset\tformat\tsamples\tshards\tsize\tgeneration\t")
	for _, d := range all {
		mark := ""
		if d.Default {
			mark = "default"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.12s\t%s\n", words.Printable(cmp.Or(d.Address, d.Name)), d.Format, humanize.Comma(int64(d.Samples)),
			humanize.Comma(int64(d.Shards)), humanize.IBytes(d.Bytes), d.Generation, mark)
	}
	t.Flush()
}
