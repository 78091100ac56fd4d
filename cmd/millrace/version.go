package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/shuffle"
)

type versionInfo struct {
	cli.Program
	OrderVersion int `json:"order_version"`
}

func buildInfo() versionInfo { return versionInfo{cli.ReadProgram(), shuffle.OrderVersion} }

func (v versionInfo) String() string {
	return fmt.Sprintf("millrace %s (%s, %s, order %d)", v.Version, v.Go, v.Platform, v.OrderVersion)
}

func (a *app) version() *cobra.Command {
	return a.Build(cli.Command{
		Use: "version", Short: "Print the version",
		Example: "  millrace version\n  millrace version --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			return nil, func(context.Context, []string) error {
				v := buildInfo()
				return a.Print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
			}
		},
	})
}
