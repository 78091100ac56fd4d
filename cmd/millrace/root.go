package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// app is the program: its commands are methods.
type app struct{ *cli.App }

// run is the program, without the process: it returns the exit code.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	a := &app{cli.New(env, stdout, stderr)}
	a.Hide, a.Detail = location.HideSecrets, a.traced
	err := a.root(args).ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	f := failureOf(ctx, err)
	a.Report(err, f)
	return f.Exit
}

const rootLong = `Millrace is a training-data gateway. Point it at shards in any S3-compatible bucket
and every machine that trains reads its shuffled batches with one HTTP GET:

    curl 'http://gateway:8080/epoch/0/batch/17?format=tar' | tar -t

An address names the bucket and how its service is reached, in quotes, since shells read ? and &:
's3://bucket/photos?endpoint=https://minio:9000&region=eu'; see 'millrace index --help'.

The settings of serve can also be set by the environment (--cache-size is MILLRACE_CACHE_SIZE)
and in a YAML file that --config names. The other commands read neither, but for AWS_... and
what they need to ask a gateway:

  MILLRACE_TOKEN_FILE             file that holds the token to show to gateways
  MILLRACE_TOKEN                  the token itself, in place of a file
  MILLRACE_INSECURE_PLAIN_HTTP    true: send the token to other machines without TLS too
  SSL_CERT_FILE                   authorities to trust, in place of the system's

Exit codes: 0 ok, 1 failure, 2 usage or configuration, 3 corruption found,
4 not found, 5 store or gateway unreachable, or store denied, 130 interrupted.
With --json a failure is one JSON object, {"error": {...}}, on stdout.`

func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:     "millrace COMMAND",
		Short:   "Shuffled batches of training data by URL",
		Version: buildInfo().String(),
		Long:    rootLong,
		Example: "  millrace demo\n  millrace index s3://bucket/imagenet\n  millrace serve --dataset imagenet=s3://bucket/imagenet --cache-size 16GiB",
	}
	root.AddCommand(
		a.demo(), a.pack(), a.index(), a.serve(), a.token(), a.fetch(), a.plan(), a.warm(), a.simulate(), a.subset(), a.quarantine(),
		a.verify(), a.gc(), a.occurrences(), a.top(), a.info(), a.datasets(), a.reports(), a.version())
	a.Root(root, args)
	return root
}
