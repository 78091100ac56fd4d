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
		Use: "occurrences GATEWAY[/NAME]|URL --key KEY --epochs N-N", Short: "Say which batches of a job had a sample, and which ranks got it",
		Long: `Works out where a sample comes in some epochs of a job, long after the job has ended: from the
URL of any one of its batches (the Content-Location of an answer), which holds the whole plan,
and the sample's key. With world_size in the URL it says which rank got the sample. The gateway
of the URL answers, or with --offline the index of the generation that the URL names. No data
is read. GATEWAY/NAME stands for the default plan of the generation that is served now.`,
		Example: `  millrace occurrences http://gw:8080/photos --key img-123 --epochs 0-9
  millrace occurrences "http://gw:8080/v1/datasets/photos/epochs/0/batches/3?..." --key img-123 \
    --epochs 0-9
  millrace occurrences "/v1/datasets/photos/epochs/0/batches/3?..." --key img-123 --epochs 0-9 \
    --offline s3://bucket/photos`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var q occurrences.Question
			var s location.Stores
			var l location.Location
			var offline string
			f.Text(&q.Key, "key", "", "`KEY` of the sample")
			f.Text(&q.Shard, "shard", "", "`SHARD` of the sample, where several shards have the key")
			f.Text(&q.Epochs, "epochs", "", "`N-N`, the first epoch and the last, or N")
			f.Text(&offline, "offline", "", "`DATASET` whose index answers in place of a gateway")
			f.Output(a.App)
			check := func(args []string) {
				if offline != "" {
					l = one(f, offline)
				}
				q.URL, q.Retrying = args[0], a.retrying()
				if err := q.Check(offline != ""); err != nil {
					f.Fault("%w", err)
				}
			}
			return check, func(ctx context.Context, _ []string) error {
				answer, err := q.Answer(ctx, &s, l)
				if err != nil {
					return err
				}
				return a.Print(answer, answer.Print)
			}
		},
	})
}
