package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/top"
)

const (
	pollEvery  = 2 * time.Second
	leastEvery = 200 * time.Millisecond // more frequent requests would load the gateways
	textWidth  = 160                    // columns of a report that is not written to a terminal
)

func (a *app) top() *cobra.Command {
	return a.Build(cli.Command{
		Use: "top GATEWAY...", Short: "Show activity and bottleneck of gateways",
		Long: `Shows the bottleneck of each gateway and its cure, the sources of bytes, memory, store, and each
rank's rate, wait and lag, the most urgent first. In a terminal, redraws one screen until Ctrl-C;
otherwise prints everything once. NO_COLOR disables colors. Statistics require the right admin, and
are on the admin port of a gateway that has one.`,
		Example: `  millrace top http://gw:8081
  millrace top 'http://gateways-{0..7}.gateways:8081' --interval 5s
  millrace top http://gw:8081 --json`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var once bool
			var every time.Duration
			f.Duration(&every, "interval", pollEvery, "time between two polls")
			f.Flag(&once, "once", "print everything once, as text")
			check := func(args []string) {
				if every < leastEvery {
					f.Fault("--interval must be at least %v", leastEvery)
				}
				for _, g := range args {
					gatewaysOf(f, client.Config{Gateways: []string{g}})
				}
			}
			return check, func(ctx context.Context, args []string) error {
				fleet, err := top.NewFleet(args)
				if err != nil {
					return err
				}
				ctx, cancel := context.WithCancel(ctx)
				defer fleet.Close()
				defer cancel()
				out, ok := a.Stdout.(*os.File)
				if !once && !a.JSON && ok && isatty.IsTerminal(out.Fd()) && a.Env["TERM"] != "dumb" {
					return top.Watch(ctx, fleet, every, out, a.Env["NO_COLOR"] == "")
				}
				r, err := top.Once(ctx, fleet, every)
				if err != nil {
					return err
				}
				return a.Print(r, func(w io.Writer) { io.WriteString(w, r.Print(textWidth)) }) //nolint:errcheck // a buffer
			}
		},
	})
}
