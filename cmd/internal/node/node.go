// Package node composes the process of a gateway. It makes the parts from a configuration, runs
// them, and ends them in order. It uses neither flags nor a terminal.
package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/gateway/audit"
	"github.com/millrace-data/millrace/gateway/auth"
	"github.com/millrace-data/millrace/internal/shared"
	"github.com/millrace-data/millrace/internal/tracing"
	"github.com/millrace-data/millrace/internal/tracing/export"
)

// The parts of a node; an arrow means "calls":
//
//	   listener ──> gateway.Handler ──────────┐             admin listener ──> gateway.Admin
//	                   │                      │
//	                   v                      v
//	            chunkindex.Index       datapath.Source      one of each per generation of a dataset: keeper opens and
//	                   │ Table                │             closes them
//	                   v                      v
//	            datapath.Tables ────> datapath.Path <── Run: fetches ahead for active readers
//	                                    │    │    │
//	                                    v    │    v
//	                        budget.Budget    │  objstore.Store    a directory, or s3backend
//	                                         v
//	                                  diskcache.Cache             optional
//
// The process has one path and one budget, and each dataset with a quota has its own. Indexes, tables, chunks,
// transfers and bodies reserve from the budget. The source of a mixture is a datapath.Mixture of other sources.
// The keeper changes the set of served datasets while the process runs; keeper.go has its diagram. One errgroup
// runs all parts. Shutdown order: not ready, no new connections, open requests done, peer port closed, loads
// ended, indexes closed. peers.go has the diagram of a cluster member's additional parts.

// Node is a gateway's process with all its parts.
type Node struct {
	cfg     *Config
	log     zerolog.Logger
	gateway *gateway.Gateway
	keeper  *keeper
	closers []func() // called in reverse order

	divisions []*division // the main one first
	peers     *peers      // nil: not in a cluster

	lock *lockFile // nil: the node does not depend on a lock

	tls          *tls.Config // TLS settings of the data and admin ports; nil: plain HTTP
	certificates []certificate
	guard        *auth.Guard // nil: requests need no credentials
	audit        *audit.Log  // nil: no audit log
	trace        tracing.Tracer
	shared       *shared.Pool // nil: no shared memory
}

// Close closes all parts that New opened. Run must have ended.
func (s *Node) Close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
	s.closers = nil
}

// atEnd makes Close close a part, and log its error.
func (s *Node) atEnd(end func() error, level zerolog.Level, words string) {
	s.closers = append(s.closers, func() {
		if err := end(); err != nil {
			s.log.WithLevel(level).Err(err).Msg(words)
		}
	})
}

// New opens the datasets and connects the parts. It starts nothing.
func New(ctx context.Context, c *Config) (*Node, error) {
	s := &Node{cfg: c, log: c.Log}
	s.keeper = &keeper{node: s, reloader: reloader{patience: lookLimit, turn: make(chan struct{}, 1)}, placed: make(chan struct{}, 1), current: map[string]*generation{}}
	if c.LimitHeap {
		limitHeap(c.Memory, c.memoryOfAll())
	}
	s.log.Debug().Int64("memory", c.Memory).Int64("cache", c.memoryOfAll()).Int64("heap_limit", debug.SetMemoryLimit(-1)).Msg("memory")
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open makes all parts, each after its dependencies.
func (s *Node) open(ctx context.Context) error {
	c := s.cfg
	if err := s.openTraces(ctx); err != nil {
		return err
	}
	cfg := gateway.Config{
		Trace: s.trace, Mix: s.mix, Open: s.keeper.openOlder, Reload: s.Reload, Follows: c.Follow > 0, Log: s.log, Version: c.Version, Stats: s.stats, Readers: s.readers,
		AdminListen: c.AdminListen != "", FirstByteTimeout: c.FirstByteTimeout,
		LameDuck: max(c.LameDuck, 1), // 0 would select the default
	}
	if err := s.hold(); err != nil {
		return err
	}
	if err := s.openTLS(); err != nil {
		return err
	}
	if err := s.openAccess(ctx, &cfg); err != nil {
		return err
	}
	if err := s.joinCluster(); err != nil {
		return err
	}
	set, err := s.keeper.configured(s.keeper.file().Read())
	if err != nil {
		return settingError("datasets", err)
	}
	if err := s.divide(set); err != nil {
		return err
	}
	s.closers = append(s.closers, s.keeper.end)
	if cfg.Datasets, cfg.Mixtures, err = s.keeper.first(ctx, set); err != nil {
		return err
	}
	cfg.Budget = s.main().budget
	cfg.Shared = s.openShared()
	if s.peers != nil {
		cfg.Cluster, cfg.Awaits = s.clusterPage, s.peers.cluster.Awaits
	}
	if s.gateway, err = gateway.New(cfg); err != nil {
		return err
	}
	s.atEnd(s.gateway.Close, zerolog.WarnLevel, "gateway not closed cleanly")
	return nil
}

// openTraces starts the export of traces, if the environment configures one. It closes after the parts that it traces.
func (s *Node) openTraces(ctx context.Context) error {
	if !s.cfg.Traces || s.cfg.Check {
		return nil
	}
	e, err := export.Open(ctx, s.cfg.Version, s.log)
	if err != nil {
		return err
	}
	s.trace = e.Tracer()
	s.atEnd(e.Close, zerolog.WarnLevel, "last traces not sent")
	return nil
}

// Run binds the listeners and serves until ctx ends, then drains. ready, if not nil, is called with the data
// port's first address once all accept connections.
func (s *Node) Run(ctx context.Context, ready func(net.Addr)) error {
	l, err := s.ports(ctx)
	if err != nil {
		return err
	}
	for _, ln := range l.data {
		at, socket := ln.Addr(), ln.Addr().Network() == "unix"
		switch {
		case s.guard != nil:
		case socket && !Private(s.cfg.SocketMode):
			s.log.Warn().Msg("insecure-no-auth: every user with access to this socket can read every dataset")
		case !socket && !Loopback(at.String()):
			s.log.Warn().Msg("insecure-no-auth: every machine that can reach this address can read every dataset")
		}
		s.log.Info().Str("url", s.pageURL(at)).Stringer("listen", at).Bool("tls", s.tls != nil && !socket).Msg("serving")
	}
	if ready != nil {
		ready(l.data[0].Addr())
	}
	return s.join(ctx, l)
}

// pageURL returns the URL of the gateway's page for a browser on this machine. It is "" for a Unix
// socket.
func (s *Node) pageURL(at net.Addr) string {
	scheme := "http://"
	switch {
	case at.Network() == "unix":
		return ""
	case s.tls != nil:
		scheme = "https://"
	}
	return scheme + strings.NewReplacer("0.0.0.0:", "localhost:", "[::]:", "localhost:").Replace(at.String()) + "/"
}

// listeners holds the listeners of a gateway's ports.
type listeners struct {
	data                 []net.Listener
	admin, health, peers net.Listener // nil: the port is not configured
}

// ports binds all ports. The peer port is first, so that it answers as soon as this gateway is
// ready.
func (s *Node) ports(ctx context.Context) (l listeners, err error) {
	if s.cfg.Bound != nil {
		l.data = []net.Listener{s.cfg.Bound}
	}
	if l.peers, err = s.listenPeers(ctx); err == nil && l.data == nil {
		l.data, err = listenAll(ctx, s.cfg.Listen, s.cfg.SocketMode)
	}
	if err == nil && s.cfg.AdminListen != "" {
		if l.admin, err = Listen(ctx, s.cfg.AdminListen, s.cfg.SocketMode); err == nil {
			s.log.Info().Stringer("listen", l.admin.Addr()).Msg("admin port")
		}
	}
	if err == nil && s.cfg.HealthListen != "" {
		if l.health, err = Listen(ctx, s.cfg.HealthListen, s.cfg.SocketMode); err == nil {
			s.log.Info().Stringer("listen", l.health.Addr()).Msg("health port")
		}
	}
	if err == nil && s.cfg.PortFile != "" {
		err = writePorts(s.cfg.PortFile, l.data)
	}
	if err != nil {
		for _, ln := range append(l.data, l.peers, l.admin, l.health) {
			if ln != nil {
				ln.Close()
			}
		}
	}
	return l, err
}

// listenAll binds the addresses of a list. On an error it also returns the listeners bound so far.
func listenAll(ctx context.Context, list string, mode fs.FileMode) (all []net.Listener, err error) {
	for _, address := range Addresses(list) {
		ln, err := Listen(ctx, address, mode)
		if err != nil {
			return all, err
		}
		all = append(all, ln)
	}
	return all, nil
}

// join runs all parts until ctx ends or a part fails. The peer port stays open until the data port
// is closed, so that other gateways read from this one instead of the store. The admin and health
// ports stay open to the end, so that operators can watch the drain. Chunks are loaded until the
// end too, since open requests wait for them.
func (s *Node) join(ctx context.Context, l listeners) error {
	rest, endRest := context.WithCancel(context.WithoutCancel(ctx))
	defer endRest()
	ctx, endUnused := context.WithCancelCause(ctx)
	defer endUnused(nil)
	g, failed := errgroup.WithContext(ctx)
	if s.lock != nil {
		g.Go(func() error { return s.lock.watch(failed, endUnused) })
	}
	for _, v := range s.divisions {
		g.Go(func() error {
			if err := v.path.Run(rest); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("run data path: %w", err)
			}
			return nil
		})
	}
	background := func(part func(context.Context)) {
		g.Go(func() error { part(rest); return nil })
	}
	if s.cfg.PaceHeap {
		background(paceCollector)
	}
	g.Go(func() error { return s.keeper.run(failed, rest) })
	background(s.watchExpiry)
	if s.guard != nil {
		g.Go(func() error { return s.guard.Run(rest) })
	}
	if s.audit != nil {
		background(s.audit.Run)
	}
	if s.shared != nil {
		background(s.shared.Run)
	}
	if l.admin != nil {
		g.Go(func() error { return gateway.ServeAdmin(rest, s.gateway, l.admin, s.tls) })
	}
	if l.health != nil {
		g.Go(func() error { return gateway.ServeHealth(rest, s.gateway, l.health) })
	}
	endPeers := s.joinPeers(failed, rest, g, l.peers)
	g.Go(func() error {
		defer endRest()
		defer endPeers()
		return s.serveData(ctx, failed, l.data)
	})
	return g.Wait()
}

// joinPeers runs the cluster's parts, if the node is in a cluster. The returned function closes the
// peer port and waits for its running answers.
func (s *Node) joinPeers(failed, rest context.Context, g *errgroup.Group, ln net.Listener) (end func()) {
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
		s.peers.goodbye()
		return nil
	})
	return func() {
		endServing()
		<-ended
	}
}

// serveData serves readers until failed ends, then drains.
func (s *Node) serveData(ctx, failed context.Context, data []net.Listener) error {
	defer context.AfterFunc(ctx, func() {
		s.log.Info().Dur("lame_duck", s.cfg.LameDuck).Dur("drain_timeout", s.cfg.DrainTimeout).Msg("draining")
	})()
	drain := max(s.cfg.DrainTimeout, 1) // 0 would select the default
	leave := func() bool {
		cause := context.Cause(ctx)
		return errors.Is(cause, errReleased) || errors.Is(cause, ErrInterrupted) && s.unused()
	}
	err := gateway.NewServer(s.gateway, gateway.ServerConfig{DrainTime: drain, TLS: s.tls, Leave: leave}).Serve(failed, data...)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("requests were still open after %s: %w", s.cfg.DrainTimeout, err)
	case err == nil:
		s.log.Info().Msg("drained")
	}
	return err
}
