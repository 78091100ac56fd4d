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
// transfers and bodies reserve from it. All that runs is joined by one errgroup. It ends in this order: not ready, no new
// connections, open requests done, loads ended, indexes closed.

func (a *app) serve() *cobra.Command {
	return a.build(command{
		use: "serve", short: "Serve datasets over HTTP",
		long: `Serves shuffled batches of one or more indexed datasets. SIGTERM ends it in order: it
reports itself not ready, goes on serving for --lame-duck, then waits for open requests
for at most --drain-timeout. A second signal ends it at once.

S3 credentials come from the AWS chain (environment, shared file, web identity, instance
metadata), never from a flag.`,
		example: `  millrace serve --dataset imagenet=s3://bucket/imagenet --cache-size 16GiB
  millrace serve --dataset ./shards --listen 127.0.0.1:9000 --admin-listen 127.0.0.1:9001
  millrace serve --config millrace.yaml --check`,
		setup: func(f *flags) (func([]string), func(context.Context, []string) error) {
			var c serveConfig
			c.define(f)
			f.flag(&a.json, "json", "print JSON, with --check")
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
func (a *app) checkServe(ctx context.Context, c *serveConfig, f *flags) error {
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
	opened  []opened                    // in the order of the flags
	names   map[*datapath.Source]string // of the datasets
	pace    bool                        // the collector: unless the user does
	senders []func(context.Context)     // of what earlier runs kept
	closers []func()                    // called last to first

	divisions []*division // the main one first
}

func (s *server) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
	s.closers = nil
}

// compose opens the datasets and wires the parts. It starts nothing.
func (a *app) compose(ctx context.Context, c *serveConfig) (*server, error) {
	s := &server{cfg: c, log: a.logger(c.logLevel, c.logFormat), pace: a.env["GOGC"] == ""}
	cache := c.cacheSize
	for _, q := range c.quotas {
		cache += q.memory
	}
	heap := limitHeap(a.env, c.memory, cache)
	s.log.Debug().Int64("memory", c.memory).Int64("cache", cache).Int64("heap_limit", heap).Msg("memory")
	err := s.divide()
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
		s.gateway, err = gateway.New(gateway.Config{
			Datasets: sets, Budget: s.main().budget, Log: s.log, Version: buildInfo().Version, Stats: s.stats, Readers: s.readers,
			AdminListen: c.adminListen != "", Deadline: c.deadline,
			LameDuck: max(c.lameDuck, 1), // 0 would be the default
		})
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
	var err error
	data := s.cfg.bound
	if data == nil {
		if data, err = listen(ctx, s.cfg.listen); err != nil {
			return err
		}
	}
	var admin net.Listener
	if s.cfg.adminListen != "" {
		if admin, err = listen(ctx, s.cfg.adminListen); err != nil {
			data.Close()
			return err
		}
		s.log.Info().Stringer("listen", admin.Addr()).Msg("admin port")
	}
	if s.cfg.insecure {
		s.log.Warn().Msg("--insecure-no-auth: whoever reaches this address may read every dataset")
	}
	s.log.Info().Stringer("listen", data.Addr()).Msg("serving")
	if ready != nil {
		ready(data.Addr())
	}
	return s.join(ctx, data, admin)
}

// join runs everything until ctx ends or a part fails. The admin port, where there is one, stays up to the end,
// so that the drain can be watched; and so do loads, since open requests wait for them.
func (s *server) join(ctx context.Context, data, admin net.Listener) error {
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
	if admin != nil {
		srv := gateway.NewAdminServer(s.gateway)
		context.AfterFunc(rest, func() { _ = srv.Close() })
		g.Go(func() error {
			if err := srv.Serve(admin); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", admin.Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		defer endRest()
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
	})
	return g.Wait()
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
