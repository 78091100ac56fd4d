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
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/cmd/internal/cli"
	"github.com/millrace-data/millrace/cmd/internal/demo"
	"github.com/millrace-data/millrace/cmd/internal/location"
	"github.com/millrace-data/millrace/cmd/internal/node"
	"github.com/millrace-data/millrace/internal/objstore"
)

type demoFlags struct {
	from   string
	listen string
	once   bool
}

type demoReport struct {
	Dataset    string        `json:"dataset"`
	Generation string        `json:"generation"`
	Samples    uint64        `json:"samples"`
	Reused     bool          `json:"reused"`
	Epochs     []fetchReport `json:"epochs"`
}

func (a *app) demo() *cobra.Command {
	return a.Build(cli.Command{
		Use: "demo [DIR]", Short: "Pack and serve files, print commands to try",
		Long: `Packs the files of DIR, or Go's source tree, into shards in the user's cache directory, serves them
on port 8080 or the next free port, and prints commands to try. A second run reuses the shards.`,
		Example: "  millrace demo\n  millrace demo ~/Pictures\n  millrace demo --once",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x demoFlags
			f.Text(&x.listen, "listen", "", "`ADDRESS` data port (default 127.0.0.1:8080 or the next free port)")
			f.Flag(&x.once, "once", "read and check two epochs, print the result and exit")
			f.Output(a.App)
			check := func(args []string) {
				if len(args) > 0 {
					x.from = args[0]
				}
				if x.listen != "" && !node.Loopback(x.listen) {
					f.Fault("--listen %q: must be a loopback HOST:PORT, because the demo has no access control", x.listen)
				}
			}
			return check, func(ctx context.Context, _ []string) error { return a.runDemo(ctx, &x) }
		},
	})
}

func (a *app) runDemo(ctx context.Context, x *demoFlags) error {
	source, err := demo.Source(ctx, x.from, a.Env["GOROOT"])
	if err != nil {
		return cli.Usage(err, "millrace demo")
	}
	l, err := demo.Place(source, a.Env["XDG_CACHE_HOME"])
	if err != nil {
		return err
	}
	reused, err := a.demoPack(ctx, source, l)
	if err != nil {
		return err
	}
	c := &serveConfig{logLevel: "warn", logFormat: "auto", Config: node.Config{
		CacheSize: min(node.DefaultCacheSize(node.UsableMemory()), 1<<30), Memory: node.UsableMemory(), BudgetWait: 0, FirstByteTimeout: time.Minute,
		LameDuck: time.Millisecond, DrainTimeout: 5 * time.Second, Locations: []location.Location{l},
	}}
	if c.Bound, err = demo.Listen(ctx, x.listen); err != nil {
		return err
	}
	s, err := a.compose(ctx, c)
	if err != nil {
		return errors.Join(err, c.Bound.Close())
	}
	defer s.Close()
	if !x.once {
		return s.Run(ctx, func(at net.Addr) { a.demoHints("http://"+at.String(), l.Name) })
	}
	return a.demoOnce(ctx, s, l.Name, reused)
}

// demoPack packs and indexes the source, unless an earlier run has done so.
func (a *app) demoPack(ctx context.Context, source string, l location.Location) (reused bool, err error) {
	var s location.Stores
	err = s.With(ctx, l, true, func(ctx context.Context, st objstore.Store) error {
		if x, err := chunkindex.Open(ctx, st, "", chunkindex.OpenOptions{}); err == nil {
			reused = true
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
	return reused, err
}

// demoHints prints the address of the demo and commands to try. A failed write does not stop the
// demo.
func (a *app) demoHints(base, name string) {
	where := map[string]string{"url": base, "dataset": name, "batch": base + "/epoch/0/batch/0"}
	_ = a.Print(where, func(w io.Writer) { fmt.Fprint(w, demo.Hints(base)) })
}

// demoOnce serves the demo until it has read two epochs itself.
func (a *app) demoOnce(ctx context.Context, s *node.Node, name string, reused bool) error {
	rep := demoReport{Dataset: name, Reused: reused}
	err := s.During(ctx, func(ctx context.Context, at net.Addr) (err error) {
		rep.Epochs, err = a.demoRead(ctx, "http://"+at.String())
		return err
	})
	if err != nil {
		return err
	}
	rep.Generation = rep.Epochs[0].Generation
	rep.Samples = rep.Epochs[0].Samples
	return a.Print(rep, func(w io.Writer) {
		for _, e := range rep.Epochs {
			printFetch(w, e)
		}
		fmt.Fprintln(w, "the demo works: two epochs, every sample once in each, every byte checked")
	})
}

func (a *app) demoRead(ctx context.Context, base string) ([]fetchReport, error) {
	var reps []fetchReport
	for epoch := range uint64(2) {
		x := &fetchFlags{parallel: 8, deadline: client.DefaultDeadline}
		x.plan.opt.Epoch = epoch
		rep, err := a.runFetch(ctx, x, []string{base})
		if err != nil {
			return nil, err
		}
		reps = append(reps, rep)
	}
	return reps, nil
}
