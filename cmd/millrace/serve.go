package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/datapath"
	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/cli"
	"github.com/millrace-data/millrace/internal/location"
	"github.com/millrace-data/millrace/internal/objstore"
)

// What serve puts together; an arrow means "calls":
//
//	   listener ──> gateway.Handler ──────────┐             admin listener ──> gateway.Admin
//	                   │                      │
//	                   v                      v
//	            chunkindex.Index       datapath.Source      one of each per dataset
//	                   │ Table                │
//	                   v                      v
//	            datapath.Tables ────> datapath.Path <── Run: fetches ahead, while anybody reads
//	                                    │    │    │
//	                                    v    │    v
//	                        budget.Budget    │  objstore.Store    a directory, or s3backend
//	                                         v
//	                                  diskcache.Cache             where there is one
//
// A path and a budget are one for the process, and one more for each dataset with a quota: indexes, tables, chunks,
// transfers and bodies reserve from it. The source of a mixture is a datapath.Mixture of others. All that runs is joined by one errgroup. It ends in this order: not ready, no new
// connections, open requests done, peer port closed, loads ended, indexes closed. What a member of a cluster has besides is
// drawn in serve_peers.go.

func (a *app) serve() *cobra.Command {
	return a.Build(cli.Command{
		Use: "serve", Short: "Serve datasets over HTTP",
		Long: `Serves shuffled batches of one or more indexed datasets. SIGTERM ends it in order: it
reports itself not ready, goes on serving for --lame-duck, then waits for open requests
for at most --drain-timeout. A second signal ends it at once.

S3 credentials come from the AWS chain (environment, shared file, web identity, instance
metadata), never from a flag.`,
		Example: `  millrace serve --dataset imagenet=s3://bucket/imagenet --cache-size 16GiB
  millrace serve --dataset ./shards --listen 127.0.0.1:9000 --admin-listen 127.0.0.1:9001
  millrace serve --dataset s3://bucket/imagenet --cluster job-a --join dns:gateways.job-a.svc:7946 \
    --peer-listen 0.0.0.0:7946 --peer-cert tls.crt --peer-key tls.key --peer-ca ca.crt
  millrace serve --dataset photos=s3://public/photos,index=s3://mine/photos
  millrace serve --config millrace.yaml --check`,
		Setup: func(f *cli.Flags) (func([]string), func(context.Context, []string) error) {
			var c serveConfig
			c.define(f)
			f.Flag(&a.JSON, "json", "print JSON, with --check")
			check := func([]string) { c.validate(f) }
			return check, func(ctx context.Context, _ []string) error {
				if c.check {
					return a.checkServe(ctx, &c, f)
				}
				s, err := a.compose(ctx, &c)
				if err != nil {
					return err
				}
				defer s.close()
				return s.run(ctx, nil)
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
	defer s.close()
	return a.printConfig(c, f)
}

// server is the composed process.
type server struct {
	cfg     *serveConfig
	log     zerolog.Logger
	gateway *gateway.Gateway
	stores  []objstore.Store
	opened  []location.Opened           // in the order of the flags
	names   map[*datapath.Source]string // of the datasets
	pace    bool                        // the collector: unless the user does
	senders []func(context.Context)     // of what earlier runs kept
	closers []func()                    // called last to first

	divisions []*division // the main one first
	peers     *peers      // nil: the gateway is alone
}

func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// compose opens the datasets and wires the parts. It starts nothing.
func (a *app) compose(ctx context.Context, c *serveConfig) (*server, error) {
	s := &server{cfg: c, log: a.Logger(c.logLevel, c.logFormat), pace: a.Env["GOGC"] == ""}
	cache := c.memoryOfAll()
	heap := limitHeap(a.Env, c.memory, cache)
	s.log.Debug().Int64("memory", c.memory).Int64("cache", cache).Int64("heap_limit", heap).Msg("memory")
	err := s.joinCluster()
	if err == nil {
		err = s.divide()
	}
	if err == nil {
		err = s.open(ctx)
	}
	if err == nil {
		err = s.fit()
	}
	var sets []gateway.Dataset
	if err == nil {
		sets, err = s.datasets()
	}
	if err == nil {
		cfg := gateway.Config{
			Datasets: sets, Mixtures: c.mixed, Mix: s.mix, Budget: s.main().budget, Log: s.log, Version: buildInfo().Version, Stats: s.stats, Readers: s.readers,
			AdminListen: c.adminListen != "", Deadline: c.deadline,
			LameDuck: max(c.lameDuck, 1), // 0 would be the default
		}
		if s.peers != nil {
			s.peers.serve(s.opened, s.division)
			cfg.Cluster = s.clusterPage
		}
		s.gateway, err = gateway.New(cfg)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.closers = append(s.closers, func() {
		if err := s.gateway.Close(); err != nil {
			s.log.Warn().Err(err).Msg("close the gateway")
		}
	})
	return s, nil
}

// run binds the listeners and serves until ctx ends, then drains. ready, if not nil, is called with the data
// port's address once it accepts connections.
func (s *server) run(ctx context.Context, ready func(net.Addr)) error {
	l, err := s.ports(ctx)
	if err != nil {
		return err
	}
	if s.cfg.insecure {
		s.log.Warn().Msg("--insecure-no-auth: whoever reaches this address may read every dataset")
	}
	s.log.Info().Stringer("listen", l.data.Addr()).Msg("serving")
	if ready != nil {
		ready(l.data.Addr())
	}
	return s.join(ctx, l)
}

// listeners are the ports of a gateway.
type listeners struct {
	data, admin, peers net.Listener // admin and peers may be nil
}

// ports binds all ports, that of the peers first: who finds us by our readiness finds that too.
func (s *server) ports(ctx context.Context) (l listeners, err error) {
	l.data = s.cfg.bound
	if l.peers, err = s.listenPeers(ctx); err == nil && l.data == nil {
		l.data, err = listen(ctx, s.cfg.listen)
	}
	if err == nil && s.cfg.adminListen != "" {
		if l.admin, err = listen(ctx, s.cfg.adminListen); err == nil {
			s.log.Info().Stringer("listen", l.admin.Addr()).Msg("admin port")
		}
	}
	if err != nil {
		for _, ln := range []net.Listener{l.peers, l.data} {
			if ln != nil {
				ln.Close()
			}
		}
	}
	return l, err
}

// join runs everything until ctx ends or a part fails. The peer port stays up until the data port is closed: what others
// ask meanwhile need not come from the store. The admin port, where there is one, stays up to the end,
// so that the drain can be watched; and so do loads, since open requests wait for them.
func (s *server) join(ctx context.Context, l listeners) error {
	rest, endRest := context.WithCancel(context.WithoutCancel(ctx))
	defer endRest()
	g, failed := errgroup.WithContext(ctx)
	for _, v := range s.divisions {
		g.Go(func() error {
			if err := v.path.Run(rest); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("run data path: %w", err)
			}
			return nil
		})
	}
	if s.pace {
		g.Go(func() error { return paceCollector(rest) })
	}
	for _, send := range s.senders {
		g.Go(func() error {
			send(rest)
			return nil
		})
	}
	if l.admin != nil {
		g.Go(func() error { return s.serveAdmin(rest, l.admin) })
	}
	endPeers := s.joinPeers(failed, rest, g, l.peers)
	g.Go(func() error {
		defer endRest()
		defer endPeers()
		return s.serveData(ctx, failed, l.data)
	})
	return g.Wait()
}

// joinPeers runs what belongs to the cluster, nothing where there is none, and returns what closes the peer port, after what
// it answers has ended.
func (s *server) joinPeers(failed, rest context.Context, g *errgroup.Group, ln net.Listener) (end func()) {
	if s.peers == nil {
		return func() {}
	}
	serving, endServing := context.WithCancel(rest)
	ended := make(chan struct{})
	g.Go(func() error {
		defer close(ended)
		return s.peers.server.Serve(serving, ln)
	})
	g.Go(func() error {
		if err := s.peers.run(rest, s.gateway); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-failed.Done()
		s.peers.goodbye(rest)
		return nil
	})
	return func() {
		endServing()
		<-ended
	}
}

func (s *server) serveAdmin(rest context.Context, admin net.Listener) error {
	srv := gateway.NewAdminServer(s.gateway)
	context.AfterFunc(rest, func() { _ = srv.Close() })
	if err := srv.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", admin.Addr(), err)
	}
	return nil
}

// serveData serves readers until failed ends, then drains.
func (s *server) serveData(ctx, failed context.Context, data net.Listener) error {
	defer context.AfterFunc(ctx, func() {
		s.log.Info().Dur("lame_duck", s.cfg.lameDuck).Dur("drain_timeout", s.cfg.drain).Msg("draining")
	})()
	drain := max(s.cfg.drain, 1) // 0 would be the default
	err := gateway.NewServer(s.gateway, gateway.ServerConfig{DrainTime: drain}).Serve(failed, data)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("requests were still open after %s: %w", s.cfg.drain, err)
	case err == nil:
		s.log.Info().Msg("drained")
	}
	return err
}

func listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := bind(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %v", address, err) //nolint:errorlint // no store: the exit code must not say so
	}
	return l, nil
}

func bind(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}}
	return lc.Listen(ctx, "tcp", address)
}
