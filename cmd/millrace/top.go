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
	lookEvery  = 2 * time.Second
	leastEvery = 200 * time.Millisecond // more looks would load the gateways that they are about
	textWidth  = 160                    // of a screen that goes into a pipe
)

func (a *app) top() *cobra.Command {
	return a.Build(cli.Command{
		Use: "top GATEWAY...", Short: "Show on one screen what gateways do and what limits them",
		Long: `Shows what limits the readers of each gateway now and what to do about it, where bytes come from,
memory, store, and every rank: its rate, what it waits, how far it is behind; those that need a
look first. Keys change the order and filter; ? explains. Statistics want the right admin, and are
on the admin port where a gateway has one.

With --once or --json, or where the output is no terminal, it takes two looks and prints them once.
It fails at once if no gateway answers the first look.`,
		Example: `  millrace top http://gw:8081
  millrace top 'http://gateways-{0..7}.gateways:8081' --interval 5s
  millrace top http://gw:8081 --json`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var once bool
			var every time.Duration
			f.Duration(&every, "interval", lookEvery, "`DURATION` between two looks")
			f.Flag(&once, "once", "print one screen as text")
			f.Output(a.App)
			check := func(args []string) {
				if every < leastEvery {
					f.Fault("--interval: want %v or more", leastEvery)
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
				if !once && !a.JSON && ok && isatty.IsTerminal(out.Fd()) && isatty.IsTerminal(os.Stdin.Fd()) {
					return top.Watch(ctx, fleet, every, top.Terminal{In: os.Stdin, Out: out, Env: os.Environ()})
				}
				return a.topOnce(ctx, fleet, every)
			}
		},
	})
}

// topOnce prints one report.
func (a *app) topOnce(ctx context.Context, fleet *top.Fleet, every time.Duration) error {
	r, err := top.Once(ctx, fleet, every)
	if err != nil {
		return err
	}
	return a.Print(r, func(w io.Writer) { io.WriteString(w, r.Print(textWidth)) }) //nolint:errcheck // a buffer
}
