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
		Long: `Serves shuffled batches of indexed datasets over HTTP. Every flag is also a setting: --cache-size is
MILLRACE_CACHE_SIZE in the environment, and cache-size in section memory of a configuration file.`,
		Manual: `Flags override the environment, which overrides the file of --config. NAME= is optional in --dataset,
which takes ,index=URL and ,links=follow; --mixture takes ,samples=N ,per-batch
On SIGTERM the gateway reports itself not ready, serves for --lame-duck, then waits for requests up
to drain-timeout. Ctrl-C skips --lame-duck without readers. A second signal stops it immediately.
SIGHUP reloads --datasets and the newest indexes. S3 credentials come from the AWS chain or the
profile in an address, never from a flag. Traces are sent to OTEL_EXPORTER_OTLP_ENDPOINT.`,
		Example: `  millrace serve ./shards
  millrace serve imagenet=s3://bucket/imagenet --cache-size 64GiB --disk-cache /nvme/millrace
  millrace serve --config millrace.yaml --check`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var c serveConfig
			c.define(f)
			f.Flag(&a.JSON, "json", "with --check, print JSON")
			check := func(args []string) {
				c.dataset = append(c.dataset, args...)
				if a.JSON && !c.Check {
					f.Fault("--json requires --check; for a JSON log, use --log-format json")
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

// checkServe opens all parts except the ports, and prints the settings.
func (a *app) checkServe(ctx context.Context, c *serveConfig, f *cli.Flags) error {
	s, err := a.compose(ctx, c)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := f.PrintSettings(); err != nil {
		return err
	}
	s.Close() // logs; ok is the last line
	fmt.Fprintln(a.Stderr, "ok: the gateway can start with these settings")
	return nil
}

// compose makes the node. GOMEMLIMIT and GOGC override its limits of the heap.
func (a *app) compose(ctx context.Context, c *serveConfig) (*node.Node, error) {
	c.Log, c.Version = a.Logger(c.logLevel, c.logFormat), buildInfo().Version
	c.Traces = true
	c.LimitHeap, c.PaceHeap = a.Env["GOMEMLIMIT"] == "", a.Env["GOGC"] == ""
	s, err := node.New(ctx, &c.Config)
	if fault, ok := errors.AsType[*node.SettingError](err); ok {
		err = cli.Usage(errors.New(c.named(fault)), "millrace serve")
	}
	return s, err
}
