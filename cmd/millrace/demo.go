package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/client"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/node"
	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/pack"
)

// What demo packs: small enough to be quick, cut finely enough that there is something to shuffle.
const (
	demoShard = 16 << 20
	demoChunk = 512 << 10
	demoBatch = 64
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
		Use: "demo", Short: "Pack real files, serve them, print curl commands to try",
		Long: `Packs Go's own source tree, or the files of --from, into shards under the user's cache
directory, serves them on port 8080 or the next free one, and prints commands to try. It
needs no server and no account. A second run uses the same shards again.`,
		Example: "  millrace demo\n  millrace demo --from ~/Pictures\n  millrace demo --once",
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var x demoFlags
			f.Text(&x.from, "from", "", "pack the files of `DIR` (default Go's source tree)")
			f.Text(&x.listen, "listen", "", "`ADDRESS` (default 127.0.0.1:8080, or the next free port)")
			f.Flag(&x.once, "once", "serve, read two epochs, check them, print the figures and exit")
			f.Output(a.App)
			check := func([]string) {
				if host, _, err := net.SplitHostPort(x.listen); x.listen != "" && (err != nil || !loopback(host)) {
					f.Fault("--listen %q: want a loopback HOST:PORT; the demo has no tokens", x.listen)
				}
			}
			return check, func(ctx context.Context, _ []string) error { return a.runDemo(ctx, &x) }
		},
	})
}

func (a *app) runDemo(ctx context.Context, x *demoFlags) error {
	source, err := a.demoSource(ctx, x.from)
	if err != nil {
		return err
	}
	l, err := a.demoLocation(source)
	if err != nil {
		return err
	}
	reused, err := a.demoPack(ctx, source, l)
	if err != nil {
		return err
	}
	c := &serveConfig{logLevel: "warn", logFormat: "auto", Config: node.Config{
		CacheSize: min(node.DefaultCacheSize(node.UsableMemory()), 1<<30), Memory: node.UsableMemory(), Wait: 0, Deadline: time.Minute,
		LameDuck: time.Millisecond, Drain: 5 * time.Second, Locations: []location.Location{l},
	}}
	if c.Bound, err = demoListen(ctx, x.listen); err != nil {
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

// demoSource finds a directory with real files.
func (a *app) demoSource(ctx context.Context, from string) (string, error) {
	if from == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		root := strings.TrimSpace(string(out))
		if err != nil || root == "" {
			root = a.Env["GOROOT"]
		}
		if root == "" {
			return "", cli.Usage(errors.New("no Go source tree found to pack; name a directory with --from DIR"), "millrace demo")
		}
		from = filepath.Join(root, "src")
	}
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(from); err != nil || !info.IsDir() {
		return "", cli.Usage(fmt.Errorf("%s is not a directory; name one with --from DIR", from), "millrace demo")
	}
	return from, nil
}

// demoLocation is a directory under the user's cache that is named by what is packed.
func (a *app) demoLocation(source string) (location.Location, error) {
	base, err := a.cacheDir()
	if err != nil {
		return location.Location{}, err
	}
	name := "demo"
	sum := sha256.Sum256([]byte(source))
	return location.Location{Name: name, Dir: filepath.Join(base, "millrace", "demo", hex.EncodeToString(sum[:6]))}, nil
}

// cacheDir is the user's cache directory, from the environment the program was given.
func (a *app) cacheDir() (string, error) {
	if d := a.Env["XDG_CACHE_HOME"]; filepath.IsAbs(d) {
		return d, nil
	}
	d, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return d, nil
}

// demoPack packs and indexes, or finds that this was done by an earlier run.
func (a *app) demoPack(ctx context.Context, source string, l location.Location) (reused bool, err error) {
	var s location.Stores
	err = s.With(ctx, l, true, func(ctx context.Context, st objstore.Store) error {
		if x, err := chunkindex.Open(ctx, st, "", chunkindex.OpenOptions{}); err == nil {
			reused = true
			a.Say("using the shards in %s, packed from %s by an earlier run", l.Dir, source)
			return x.Close()
		}
		a.Say("packing %s into %s ...", source, l.Dir)
		build := chunkindex.BuildOptions{ChunkSize: demoChunk, Defaults: chunkindex.Defaults{BatchSize: demoBatch, Window: 32, Shuffle: "slot", Tail: "short"}}
		// Links are left out, since a tree of somebody's own may hold any.
		rep, err := a.packAndIndex(ctx, []string{source}, &s, st, l, pack.Options{ShardSize: demoShard, Key: pack.KeyGroup, SkipSpecial: true}, build)
		if err == nil {
			printPack(a.Stderr, l, rep)
		}
		return err
	})
	return reused, err
}

// demoPorts is how many ports from 8080 on are tried.
const demoPorts = 100

// demoListen takes the port asked for as it is, or else the first that is free. It stays bound: a port that was
// only looked at may be somebody else's by the time it is needed.
func demoListen(ctx context.Context, asked string) (net.Listener, error) {
	if asked != "" {
		return node.Listen(ctx, asked)
	}
	for port := 8080; port < 8080+demoPorts; port++ {
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := node.Bind(ctx, at)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen on %s: %v", at, err) //nolint:errorlint // no store: the exit code must not say so
		}
	}
	return nil, fmt.Errorf("no free port from 8080 to %d; name one with --listen", 8080+demoPorts-1)
}

// demoHints says where the demo is served. It is served whether or not anybody can read that.
func (a *app) demoHints(base, name string) {
	where := map[string]string{"url": base, "dataset": name, "batch": base + "/epoch/0/batch/17"}
	_ = a.Print(where, func(w io.Writer) { fmt.Fprintf(w, demoText, base, typed()) })
}

// typed is how this program is called in another terminal: `go run` leaves none behind, and one that was built lies
// where it lies.
func typed() string {
	if _, err := exec.LookPath("millrace"); err == nil {
		return "millrace"
	}
	self, err := os.Executable()
	if err != nil || strings.Contains(self, "go-build") {
		return "go run ./cmd/millrace"
	}
	return self
}

const demoText = `
Serving on %[1]s. In another terminal, try:

    curl -s %[1]s/epoch/0/batch/17 | tar -t
    curl -s %[1]s/epoch/0/batch/17 | sha256sum      # the same bytes, always and from any gateway
    curl -s %[1]s/epoch/1/batch/17 | tar -t         # another epoch, another order
    curl -sI %[1]s/epoch/0/batch/17                 # its headers
    curl -s '%[1]s/epoch/0/batch/17?rank=1&world_size=4' | tar -t
    curl -s %[1]s/v1/datasets/demo/epochs/0/batches/17/manifest
    curl -s %[1]s/v1/datasets/demo
    %[2]s fetch %[1]s --epoch 0 --discard

Press Ctrl-C to end.
`

// demoOnce serves while it reads two epochs itself.
func (a *app) demoOnce(ctx context.Context, s *node.Node, name string, reused bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	rep := demoReport{Dataset: name, Reused: reused}
	addr := make(chan net.Addr, 1)
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, func(at net.Addr) { addr <- at }) }()
	var err error
	select {
	case err = <-served:
		return err
	case at := <-addr:
		rep.Epochs, err = a.demoRead(ctx, "http://"+at.String())
	}
	interrupted := ctx.Err()
	stop()
	if err := errors.Join(err, interrupted, <-served); err != nil {
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
		x := &fetchFlags{connections: 8, deadline: client.DefaultDeadline, discard: true}
		x.plan.opt.Epoch = epoch
		rep, err := a.runFetch(ctx, x, []string{base})
		if err != nil {
			return nil, err
		}
		reps = append(reps, rep)
	}
	return reps, nil
}
