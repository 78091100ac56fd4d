package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/selection"
)

type quarantineReport struct {
	Digest     string          `json:"quarantine"`
	Generation string          `json:"generation"`
	New        bool            `json:"new"`
	Samples    []selection.Bad `json:"samples"`
}

// quarantineFlags say which samples are bad.
type quarantineFlags struct {
	store  storeFlags
	keys   []string
	file   string
	reason string
	verify bool
}

func (a *app) quarantine() *cobra.Command {
	return a.build(command{
		use: "quarantine DATASET", short: "Name bad samples, so that healthy ones are delivered in their place", args: 1,
		long: `Stores a list of bad samples beside the index and prints its digest. A plan that names it,
quarantine=DIGEST in a URL, delivers healthy samples of the same chunk in their place, other
ones in each epoch; all other positions stay as they are. Nothing is removed.

Samples are named by --key, by a file of one key a line, after which a tab and a reason may
stand, or found by reading everything again (--from-verify). The same samples with the same
reasons have the same digest.`,
		example: `  millrace quarantine s3://bucket/imagenet --key n01440764/n01440764_10026
  millrace quarantine ./shards --from bad.txt --reason "does not decode"
  millrace quarantine ./shards --from-verify --json`,
		setup: func(f *flags) (func([]string), func(context.Context, []string) error) {
			var x quarantineFlags
			var l location
			f.list(&x.keys, "key", "`KEY` of a bad sample; may be given more than once; one with a comma is for --from")
			f.text(&x.file, "from", "", "`FILE` of keys, one a line, after a tab a reason; - is stdin")
			f.text(&x.reason, "reason", "", "`TEXT` to note with samples that have no reason of their own")
			f.flag(&x.verify, "from-verify", "read every chunk, and take what does not match the index")
			x.store.define(f)
			f.output(a)
			check := func(args []string) {
				x.store.check(f)
				l = one(f, args[0])
				if len(x.keys) == 0 && x.file == "" && !x.verify {
					f.fault("no bad sample: want --key, --from or --from-verify")
				}
			}
			return check, func(ctx context.Context, _ []string) error { return a.runQuarantine(ctx, &x, l) }
		},
	})
}

func (a *app) runQuarantine(ctx context.Context, x *quarantineFlags, l location) error {
	d, err := openIndex(ctx, &x.store, l, chunkindex.OpenOptions{})
	if err != nil {
		return err
	}
	defer d.close()
	reasons, err := x.read()
	if err != nil {
		return err
	}
	bad := map[uint64]selection.Bad{}
	for key, reason := range reasons {
		n, ok, err := d.index.Lookup(ctx, key)
		if err != nil {
			return fmt.Errorf("quarantine %s: look up %s: %w", l, printable(key), err)
		}
		if !ok {
			return fmt.Errorf("quarantine %s: no sample has the key %s", l, printable(key))
		}
		bad[n] = selection.Bad{Number: n, Key: key, Reason: reason}
	}
	if x.verify {
		if err := a.findBad(ctx, d, x.reason, bad); err != nil {
			return err
		}
		if len(bad) == 0 {
			fmt.Fprintf(a.stderr, "millrace: %s: every chunk matches the index: there is nothing to list\n", l)
			return nil
		}
	}
	return a.storeQuarantine(ctx, d, bad)
}

func (a *app) storeQuarantine(ctx context.Context, d opened, bad map[uint64]selection.Bad) error {
	st, err := d.selections()
	if err != nil {
		return err
	}
	q := selection.Quarantine{Generation: d.index.Generation(), Samples: d.index.Samples()}
	for _, n := range slices.Sorted(maps.Keys(bad)) {
		q.Bad = append(q.Bad, bad[n])
	}
	digest, created, err := st.Quarantine(ctx, q)
	if err != nil {
		return fmt.Errorf("%s: %w", d.loc, err)
	}
	rep := quarantineReport{Digest: digest, Generation: q.Generation, New: created, Samples: q.Bad}
	return a.print(rep, func(w io.Writer) {
		fmt.Fprintf(w, "%s of %s in quarantine\n", count(len(q.Bad), "sample", "samples"), d.loc)
		for _, b := range q.Bad {
			fmt.Fprintf(w, "  %s %s\n", printable(b.Key), printable(b.Reason))
		}
		fmt.Fprintf(w, "  quarantine %s\n", digest)
	})
}

// read returns the keys that were given, with their reasons.
func (x *quarantineFlags) read() (map[string]string, error) {
	reasons := map[string]string{}
	for _, key := range x.keys {
		reasons[key] = x.reason
	}
	if x.file == "" {
		return reasons, nil
	}
	in := io.Reader(os.Stdin)
	if x.file != "-" {
		f, err := os.Open(x.file)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		defer f.Close()
		in = f
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		key, reason, _ := strings.Cut(strings.TrimSuffix(lines.Text(), "\r"), "\t")
		if key == "" {
			continue
		}
		if reason == "" {
			reason = x.reason
		}
		reasons[key] = reason
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read keys from %s: %w", x.file, err)
	}
	return reasons, nil
}

// findBad reads everything, and adds the samples that lie in what does not match the index.
func (a *app) findBad(ctx context.Context, d opened, reason string, bad map[uint64]selection.Bad) error {
	var found []chunkindex.BadRange
	b := a.newBar(ctx, "verify")
	err := chunkindex.Verify(ctx, d.index, d.store, d.loc.prefix, 8, b.update, func(r chunkindex.BadRange) { found = append(found, r) })
	b.end()
	if err != nil {
		return fmt.Errorf("verify %s: %w", d.loc, err)
	}
	for _, r := range found {
		if err := d.touched(ctx, r, reason, bad); err != nil {
			return fmt.Errorf("samples of chunk %d: %w", r.Chunk, err)
		}
	}
	return nil
}

// touched adds the samples of a bad range: those of the whole chunk, where its bytes are stored in another form than they have.
func (d opened) touched(ctx context.Context, r chunkindex.BadRange, reason string, bad map[uint64]selection.Bad) error {
	x := d.index
	table, err := x.Table(ctx, r.Chunk)
	if err != nil {
		return err
	}
	extents, first := x.Extents(r.Chunk), x.First()[r.Chunk]
	plain := len(extents) == 1 && extents[0].Length == x.Chunk(r.Chunk).Length
	if reason == "" {
		reason = r.Cause
	}
	return x.Keys(ctx, r.Chunk, func(sample uint64, key []byte) {
		k := sample - first
		at := extents[0].Offset + int64(table.Offset[k])
		if !plain || at < r.Offset+r.Length && r.Offset < at+int64(table.Length[k]) {
			bad[sample] = selection.Bad{Number: sample, Key: string(key), Reason: strings.ToValidUTF8(reason[:min(len(reason), 200)], "?")}
		}
	})
}
