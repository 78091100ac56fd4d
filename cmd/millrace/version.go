package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/shuffle"
)

type versionInfo struct {
	Version      string `json:"version"`
	Commit       string `json:"commit,omitempty"`
	Modified     bool   `json:"modified"`
	Go           string `json:"go"`
	Platform     string `json:"platform"`
	OrderVersion int    `json:"order_version"`
}

// buildInfo reads what the Go tool recorded at build time.
func buildInfo() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, OrderVersion: shuffle.OrderVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v versionInfo) String() string {
	return fmt.Sprintf("millrace %s (%s, %s, order %d)", v.Version, v.Go, v.Platform, v.OrderVersion)
}

func (a *app) version() *cobra.Command {
	return a.Build(cli.Command{
		Use: "version", Short: "Print the version",
		Example: "  millrace version\n  millrace version --json",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			f.Output(a.App)
			return nil, func(context.Context, []string) error {
				v := buildInfo()
				return a.Print(v, func(w io.Writer) { fmt.Fprintln(w, v) })
			}
		},
	})
}
