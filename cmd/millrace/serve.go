package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/node"
)

func (a *app) serve() *cobra.Command {
	return a.Build(cli.Command{
		Use: "serve [DATASET]...", Short: "Serve datasets over HTTP", Settings: true,
		Long: `Serves shuffled batches of one or more indexed datasets, which stand as arguments, behind
--dataset or in the file of --datasets. SIGTERM ends it in order: it reports itself not ready,
goes on serving for --lame-duck, then waits for open requests for at most --drain-timeout. Ctrl-C
does the same, but leaves out --lame-duck where nobody reads. A second signal ends it at once.
SIGHUP has it read --datasets and the newest indexes again.

S3 credentials come from the AWS chain (environment, shared file, web identity, instance
metadata), or from the profile that an address names, never from a flag. Traces are sent where
OTEL_EXPORTER_OTLP_ENDPOINT says.`,
		Example: `  millrace serve imagenet=s3://bucket/imagenet --cache-size 16GiB
  millrace serve ./shards --listen 127.0.0.1:9000 --admin-listen 127.0.0.1:9001
  millrace serve --dataset s3://bucket/imagenet --cluster job-a --join dns:gateways.job-a.svc:7946 \
    --peer-listen 0.0.0.0:7946 --peer-cert tls.crt --peer-key tls.key --peer-ca ca.crt
  millrace serve --dataset photos=s3://public/photos,index=s3://mine/photos
  millrace serve --dataset 's3://train/photos?profile=team-a' \
    --dataset 's3://texts/c4?endpoint=https://minio.example:9000&profile=team-b&bandwidth=500MB'
  millrace serve --datasets datasets.yaml --follow 30s
  millrace serve --config millrace.yaml --check`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var c serveConfig
			c.define(f)
			f.Flag(&a.JSON, "json", "print JSON, with --check")
			check := func(args []string) {
				c.dataset = append(c.dataset, args...)
				if a.JSON && !c.Check {
					f.Fault("--json: want --check with it; --log-format json makes the log JSON")
				}
				c.validate(f)
			}
			return check, func(ctx context.Context, _ []string) error {
				if c.Check {
					return a.checkServe(ctx, &c, f)
				}
				if err := node.CheckPorts(ctx, &c.Config); err != nil {
					return err
				}
				s, err := a.compose(ctx, &c)
				if err != nil {
					return err
				}
				defer s.Close()
				hangUp := make(chan os.Signal, 1)
				signal.Notify(hangUp, syscall.SIGHUP)
				defer signal.Stop(hangUp)
				c.HangUp = hangUp
				return s.Run(ctx, nil)
			}
		},
	})
}

// checkServe opens everything serve would need but the listeners, and prints the configuration.
func (a *app) checkServe(ctx context.Context, c *serveConfig, f *cli.Flags) error {
	s, err := a.compose(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	return f.PrintSettings()
}

// compose makes the node. What the environment says about the collector stands.
func (a *app) compose(ctx context.Context, c *serveConfig) (*node.Node, error) {
	c.Log, c.Version = a.Logger(c.logLevel, c.logFormat), buildInfo().Version
	c.Traces = true
	c.LimitHeap, c.PaceHeap = a.Env["GOMEMLIMIT"] == "", a.Env["GOGC"] == ""
	s, err := node.New(ctx, &c.Config)
	if _, ok := errors.AsType[*node.SettingError](err); ok {
		err = cli.Usage(fmt.Errorf("--%w", err), "millrace serve")
	}
	return s, err
}
