package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/occurrences"
)

func (a *app) occurrences() *cobra.Command {
	return a.Build(cli.Command{
		Use: "occurrences GATEWAY[/NAME]|URL --key KEY --epochs N-N", Short: "List the batches and ranks that got a sample",
		Long: `Lists where a sample comes in some epochs of a job, and on which rank, also long after the job. The
plan is that of the URL of any batch (the Content-Location of a response), or for GATEWAY/NAME the
default plan of the current generation. Reads no data.`,
		Example: `  millrace occurrences http://gw:8080/photos --key img-123 --epochs 0-9
  millrace occurrences "/v1/datasets/photos/epochs/0/batches/3?..." --key img-123 --epochs 0-9 \
    --offline s3://bucket/photos`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var q occurrences.Question
			var s location.Stores
			var from []location.Location
			var offline []string
			f.Text(&q.Key, "key", "", "`KEY` key of the sample")
			f.Text(&q.Shard, "shard", "", "`SHARD` shard that holds the sample, if several shards have --key")
			f.Text(&q.Epochs, "epochs", "", "`N-N` first and last epoch, or N")
			f.Repeated(&offline, "offline", ",", location.Split, "`DATASET` index to read, without a gateway; for a mixture NAME=DATASET per source")
			check := func(args []string) {
				for _, dataset := range offline {
					from = append(from, one(f, dataset))
				}
				q.URL, q.Retrying = args[0], a.retrying()
				if err := q.Check(len(offline) > 0); err != nil {
					f.Fault("%w", err)
				}
			}
			return check, func(ctx context.Context, _ []string) error {
				answer, err := q.Answer(ctx, &s, from)
				if err != nil {
					return err
				}
				return a.Print(answer, answer.Print)
			}
		},
	})
}
