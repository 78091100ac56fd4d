package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/audit"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

func (a *app) audit() *cobra.Command {
	return a.Build(cli.Command{
		Use: "audit LEDGER...", Short: "Check that a run read each sample once",
		Long: `Checks the ledgers of all ranks of a run: they cover each position once, or the output lists the
positions that are missing or repeated. With --key it lists when the run read a sample. Requires no
gateway.`,
		Example: `  millrace audit ledgers/*.jsonl
  millrace audit ledgers/*.jsonl --key img-123 --offline s3://bucket/photos`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var s location.Stores
			var from []location.Location
			var key, shard string
			var offline []string
			f.Text(&key, "key", "", "`KEY` list when the run read the sample with this key")
			f.Text(&shard, "shard", "", "`SHARD` shard that holds the sample, if several shards have --key")
			f.Repeated(&offline, "offline", ",", location.Split, "`DATASET` index to read for --key; for a mixture NAME=DATASET per source")
			check := func([]string) {
				if (key == "") != (len(offline) == 0) {
					f.Fault("--key and --offline require each other")
				}
				for _, dataset := range offline {
					from = append(from, one(f, dataset))
				}
			}
			return check, func(ctx context.Context, files []string) error {
				answer, err := audit.Read(files)
				if err != nil {
					return err
				}
				if key != "" {
					if err := answer.Find(ctx, &s, from, key, shard); err != nil {
						return err
					}
				}
				return errors.Join(a.Print(&answer, answer.Print), answer.Err())
			}
		},
	})
}
