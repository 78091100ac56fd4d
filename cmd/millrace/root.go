package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/location"
)

// app is the program. Its commands are methods.
type app struct{ *cli.App }

// run runs the program within the current process, and returns the exit code.
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

const rootLong = `Millrace serves shuffled batches of training data from any S3-compatible bucket by URL:

    curl 'http://gateway:8080/epoch/0/batch/17?format=tar' | tar -t

Commands read AWS_... and these variables; serve reads all its settings (MILLRACE_CACHE_SIZE):

  MILLRACE_TOKEN_FILE             file with the token for gateways
  MILLRACE_TOKEN                  the token itself
  MILLRACE_INSECURE_PLAIN_HTTP    true: send the token to other machines without TLS too
  SSL_CERT_FILE                   CAs to trust instead of the system's

Exit codes: 0 success, 1 failure, 2 usage or configuration, 3 corruption, 4 not found,
5 store or gateway unavailable or access denied, 130 interrupted.
With --json, an error is one JSON object, {"error": {...}}, on stdout.`

func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:     "millrace COMMAND",
		Short:   "Shuffled batches of training data by URL",
		Version: buildInfo().String(),
		Long:    rootLong,
		Example: "  millrace demo ~/Pictures\n  millrace index s3://bucket/imagenet\n  millrace serve --dataset imagenet=s3://bucket/imagenet --cache-size 16GiB",
	}
	add := func(group string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: group, Title: group})
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add("Data", a.pack(), a.index(), a.verify(), a.subset(), a.quarantine(), a.cost(), a.reports(), a.gc())
	add("Serve", a.demo(), a.serve(), a.warm(), a.token())
	add("Inspect", a.datasets(), a.info(), a.explain(), a.plan(), a.occurrences(), a.audit(), a.fetch())
	add("Debug", a.top(), a.simulate(), a.version())
	root.SetCompletionCommandGroupID("Debug")
	a.Root(root, args)
	return root
}
