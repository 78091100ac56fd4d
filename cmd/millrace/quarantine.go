package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/chunkindex/selection"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/inventory"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/words"
)

type quarantineReport struct {
	Digest     string          `json:"quarantine"`
	Generation string          `json:"generation"`
	New        bool            `json:"new"`
	Samples    []selection.Bad `json:"samples"`
}

// quarantineFlags select the bad samples.
type quarantineFlags struct {
	keys   []string
	shard  string
	file   string
	reason string
	verify bool
}

func (a *app) quarantine() *cobra.Command {
	cmd := a.Build(cli.Command{
		Use: "quarantine DATASET", Short: "List bad samples, which plans then replace",
		Long: `Stores a list of bad samples and prints its digest. A plan with quarantine=DIGEST replaces them by
other samples of the same chunk, different ones in each epoch; all other positions stay the same.
Bad samples are listed with --key or --keys, or found with --verify. Nothing is deleted.`,
		Example: `  millrace quarantine ./laion --key 000000017 --shard 00003.tar
  millrace quarantine ./shards --keys bad.txt --reason "does not decode"
  millrace quarantine ./shards --verify --json`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x quarantineFlags
			var l location.Location
			f.Texts(&x.keys, "key", nil, "`KEY` bad sample; repeatable; keys with commas require --keys")
			f.Text(&x.shard, "shard", "", "`SHARD` shard that holds the samples of --key, if several shards have the keys")
			f.Text(&x.file, "keys", "", "`FILE` file of bad samples, one per line: key, tab, reason, tab, shard (-: stdin)")
			f.Text(&x.reason, "reason", "", "`TEXT` reason for samples that have no reason in the file")
			f.Flag(&x.verify, "verify", "find bad samples: read every chunk and compare it with the index")
			check := func(args []string) {
				l = one(f, args[0])
				if len(x.keys) == 0 && x.file == "" && !x.verify {
					f.Fault("--key, --keys or --verify is required")
				}
				if x.shard != "" && len(x.keys) == 0 {
					f.Fault("--shard requires --key; in a file, the shard is the third column")
				}
			}
			return check, onDataset(&l, func(ctx context.Context, d location.Dataset) error { return a.runQuarantine(ctx, &x, d) })
		},
	})
	cmd.AddCommand(a.list("quarantine", "List the quarantines of a dataset",
		"Lists the quarantines of a dataset: digest, number of samples, generation, bytes, age.", inventory.ListQuarantines))
	return cmd
}

func (a *app) runQuarantine(ctx context.Context, x *quarantineFlags, d location.Dataset) error {
	named, err := x.read()
	if err != nil {
		return err
	}
	bad := map[uint64]selection.Bad{}
	for _, b := range named {
		n, err := inventory.FindSample(ctx, d.Index, b.Key, b.Shard)
		if err != nil {
			return fmt.Errorf("quarantine %s: %w", d.Loc, err)
		}
		bad[n] = selection.Bad{Number: n, Key: b.Key, Reason: b.Reason}
	}
	if x.verify {
		if err := a.findBad(ctx, d, x.reason, bad); err != nil {
			return err
		}
		if len(bad) == 0 {
			fmt.Fprintf(a.Stderr, "millrace: %s: all chunks match the index: nothing to quarantine\n", d.Loc)
			return nil
		}
	}
	return a.storeQuarantine(ctx, d, bad)
}

func (a *app) storeQuarantine(ctx context.Context, d location.Dataset, bad map[uint64]selection.Bad) error {
	st, err := d.Selections()
	if err != nil {
		return err
	}
	q := selection.Quarantine{Generation: d.Index.Generation(), Samples: d.Index.Samples()}
	for _, n := range slices.Sorted(maps.Keys(bad)) {
		q.Bad = append(q.Bad, bad[n])
	}
	digest, created, err := st.Quarantine(ctx, q)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Loc, err)
	}
	rep := quarantineReport{Digest: digest, Generation: q.Generation, New: created, Samples: q.Bad}
	return a.Print(rep, func(w io.Writer) {
		fmt.Fprintf(w, "%s of %s in quarantine\n", words.Count(len(q.Bad), "sample", "samples"), d.Loc)
		for _, b := range q.Bad {
			fmt.Fprintf(w, "  %s %s\n", words.Printable(b.Key), words.Printable(b.Reason))
		}
		fmt.Fprintf(w, "  quarantine %s\n", digest)
	})
}

// read returns the samples that --key and --keys name.
func (x *quarantineFlags) read() ([]selection.NamedSample, error) {
	var named []selection.NamedSample
	for _, key := range x.keys {
		named = append(named, selection.NamedSample{Key: key, Reason: x.reason, Shard: x.shard})
	}
	if x.file == "" {
		return named, nil
	}
	more, err := readKeys(x.file, func(in io.Reader) ([]selection.NamedSample, error) { return selection.ReadNamed(in, x.reason) })
	return append(named, more...), err
}

// findBad reads all chunks and adds the samples that do not match the index to bad.
func (a *app) findBad(ctx context.Context, d location.Dataset, reason string, bad map[uint64]selection.Bad) error {
	var found []chunkindex.BadRange
	b := a.NewBar("verify")
	err := chunkindex.Verify(ctx, d.Index, d.Store, d.Loc.Prefix, 8, b.Update, func(r chunkindex.BadRange) { found = append(found, r) })
	b.End()
	if err != nil {
		return fmt.Errorf("verify %s: %w", d.Loc, err)
	}
	for _, r := range append(found, restOfChanged(d.Index, found)...) {
		if r.Cause == chunkindex.Rewritten {
			return fmt.Errorf("verify %s: %s", d.Loc, chunkindex.Explain(words.Printable(r.Shard), r.Cause, d.Loc.Address()))
		}
		err := d.Index.Touched(ctx, r, func(sample uint64, key []byte) {
			bad[sample] = selection.Bad{Number: sample, Key: string(key), Reason: selection.ShortReason(cmp.Or(reason, r.Cause))}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restOfChanged returns all ranges of the objects that have changed: gateways read nothing from such
// an object, not even bytes that are the same.
func restOfChanged(x *chunkindex.Index, found []chunkindex.BadRange) (rest []chunkindex.BadRange) {
	changed := map[string]bool{}
	for _, r := range found {
		changed[r.Shard] = changed[r.Shard] || r.Cause == objstore.ErrChanged.Error()
	}
	for chunk := range x.Chunks() {
		for _, e := range x.Extents(chunk) {
			if key := x.Shard(e.Shard).Key; changed[key] {
				rest = append(rest, chunkindex.BadRange{Shard: key, Chunk: chunk, Offset: e.Offset, Length: e.Length, Cause: objstore.ErrChanged.Error()})
			}
		}
	}
	return rest
}
