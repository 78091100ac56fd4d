package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/demo"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/internal/objstore"
)

func (a *app) demo() *cobra.Command {
	return a.Build(cli.Command{
		Use: "demo DIR", Short: "Pack and serve files, print commands to try",
		Long: `Packs the files of DIR into shards in the user's cache directory, serves them on port 8080 or a
free port, and prints commands to try. A second run reuses the shards.`,
		Example: "  millrace demo ~/Pictures",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var listen string
			f.Text(&listen, "listen", "", "`ADDRESS` data port (default 127.0.0.1:8080 or a free port)")
			check := func([]string) {
				if listen != "" && !node.Loopback(listen) {
					f.Fault("--listen %q: must be a loopback HOST:PORT, because the demo has no access control", listen)
				}
			}
			return check, func(ctx context.Context, args []string) error { return a.runDemo(ctx, args[0], listen) }
		},
	})
}

func (a *app) runDemo(ctx context.Context, from, listen string) error {
	source, err := demo.Source(from)
	if err != nil {
		return cli.Usage(err, "millrace demo")
	}
	l, err := demo.Place(source, a.Env["XDG_CACHE_HOME"])
	if err != nil {
		return err
	}
	if err := a.demoPack(ctx, source, l); err != nil {
		return err
	}
	c := &serveConfig{logLevel: "warn", logFormat: "auto", Config: node.Config{
		CacheSize: min(node.DefaultCacheSize(node.UsableMemory()), 1<<30), Memory: node.UsableMemory(), BudgetWait: 0, FirstByteTimeout: time.Minute,
		LameDuck: time.Millisecond, DrainTimeout: 5 * time.Second, Locations: []location.Location{l},
	}}
	if c.Bound, err = demo.Listen(ctx, listen); err != nil {
		return err
	}
	s, err := a.compose(ctx, c)
	if err != nil {
		return errors.Join(err, c.Bound.Close())
	}
	defer s.Close()
	return s.Run(ctx, func(at net.Addr) {
		base := "http://" + at.String()
		where := map[string]string{"url": base, "dataset": l.Name, "batch": base + "/epoch/0/batch/0"}
		_ = a.Print(where, func(w io.Writer) { fmt.Fprint(w, demo.Hints(base)) }) // a failed write does not stop the demo
	})
}

// demoPack packs and indexes the source, unless an earlier run has done so.
func (a *app) demoPack(ctx context.Context, source string, l location.Location) error {
	var s location.Stores
	return s.With(ctx, l, true, func(ctx context.Context, st objstore.Store) error {
		if x, err := chunkindex.Open(ctx, st, "", chunkindex.OpenOptions{}); err == nil {
			a.Say("using the shards in %s, packed from %s by an earlier run", l.Dir, source)
			return x.Close()
		}
		a.Say("packing %s into %s ...", source, l.Dir)
		rep, err := a.packAndIndex(ctx, []string{source}, &s, st, l, demo.Packing(), demo.Indexing())
		if err == nil {
			rep.Print(a.Stderr, l)
		}
		return err
	})
}
