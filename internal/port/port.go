// Package port serves a handler on a listener, with limits on connections, optional TLS, and a
// graceful shutdown.
package port

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/loglimit"
	"github.com/millrace-data/millrace/internal/socket"
)

// Service answers requests until it is drained.
type Service interface {
	Drain()        // called once; the service is not ready from then on
	Active() int64 // number of requests being answered
}

// Config configures a Server. Handler and Service are required. The zero value of another field
// means its default.
type Config struct {
	Handler     http.Handler
	Service     Service
	Log         zerolog.Logger
	Connections int                                // maximum number of open connections, default: min(8192, (limit of open files - 512) / 2)
	LameDuck    time.Duration                      // time after Drain in which requests are answered normally, default 0
	DrainTime   time.Duration                      // time for requests in flight after the lame-duck time, default 45 s
	TLS         *tls.Config                        // nil: plain HTTP
	MostAge     time.Duration                      // maximum age of a connection; 0: unlimited
	BaseContext func(net.Listener) context.Context // context of all requests; nil: an empty one
	Leave       func() bool                        // called when the shutdown begins; reports whether to skip the lame-duck time; nil: false
}

const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 32 << 10

	defaultConnections = 8192
	reservedFiles      = 512
	defaultDrainTime   = 45 * time.Second
	drainPoll          = 50 * time.Millisecond
	leaveTime          = 5 * time.Second // time for handlers whose connections are closed
)

// Server serves a handler on listeners, and drains its service.
type Server struct {
	cfg  Config
	http *http.Server
}

// New builds a server. It starts nothing.
func New(cfg Config) *Server {
	cfg.Connections = cmp.Or(cfg.Connections, MostConnections())
	cfg.DrainTime = cmp.Or(cfg.DrainTime, defaultDrainTime)
	s := &Server{cfg: cfg, http: newHTTPServer(cfg.Handler, cfg.BaseContext, cfg.Log)}
	if cfg.MostAge > 0 {
		endOld(s.http, cfg.MostAge)
	}
	return s
}

// adminConnections is the maximum number of open connections of the admin port: for scrapers,
// probes, and a few people.
const adminConnections = 64

// ServeAdmin serves the handler of an admin port until ctx ends, as plain HTTP if secret is nil. It
// does not drain, because it is the last port to close.
func ServeAdmin(ctx context.Context, h http.Handler, base func(net.Listener) context.Context, log zerolog.Logger, ln net.Listener, secret *tls.Config) error {
	s, limited := newHTTPServer(h, base, log), socket.Limit(adminConnections, ln)
	kept := shedIdle(s, limited)
	defer context.AfterFunc(ctx, func() {
		kept.end()
		_ = s.Close()
	})()
	if err := s.Serve(encrypt(limited[0], secret)); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

func newHTTPServer(h http.Handler, base func(net.Listener) context.Context, log zerolog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          new(loglimit.Limiter).HTTP(log, "connection"),
		Protocols:         new(http.Protocols),
		BaseContext:       base,
		ConnContext:       socket.Keep,

		DisableGeneralOptionsHandler: true, // so that OPTIONS * is logged and counted like any request
	}
	s.Protocols.SetHTTP1(true)
	return s
}

// MostConnections returns the default limit on connections. It leaves file descriptors for the
// store and the index.
func MostConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultConnections
	}
	if limit.Cur <= reservedFiles+2 {
		return 1
	}
	return int(min(defaultConnections, (limit.Cur-reservedFiles)/2))
}

// encrypt adds TLS, if configured, on top of the limit on connections. A Unix socket needs none,
// because no other machine can read its traffic.
func encrypt(ln net.Listener, secret *tls.Config) net.Listener {
	if secret == nil || ln.Addr().Network() == "unix" {
		return ln
	}
	return tls.NewListener(ln, secret)
}

// Serve answers connections of all listeners until ctx ends, and then drains. Draining makes the
// service not ready at once and turns keep-alive off. Batches are served for the lame-duck time,
// which cfg.Leave may skip. Then new ones are refused as draining until those in flight have ended.
// Serve closes the listeners, and returns when everything has ended.
func (s *Server) Serve(ctx context.Context, listeners ...net.Listener) error {
	limited := socket.Limit(s.cfg.Connections, listeners...)
	kept := shedIdle(s.http, limited)
	stopped := make(chan error, len(limited))
	for _, ln := range limited {
		go func() { stopped <- fmt.Errorf("serve %s: %w", ln.Addr(), s.http.Serve(encrypt(ln, s.cfg.TLS))) }()
	}
	select {
	case err := <-stopped: // clients can no longer connect to this listener, so all are disconnected
		err = errors.Join(err, s.http.Close())
		s.leave()
		for range limited[1:] {
			<-stopped //nolint:errcheck // they were closed, and return that error
		}
		return err
	case <-ctx.Done():
	}
	s.cfg.Service.Drain()
	kept.end()
	s.http.SetKeepAlivesEnabled(false)
	err := s.drain()
	for range limited {
		if stop := <-stopped; !errors.Is(stop, http.ErrServerClosed) {
			err = stop
		}
	}
	return err
}

// drain waits for the lame-duck time, then for requests in flight, and closes the remaining
// connections.
func (s *Server) drain() error {
	if s.cfg.Leave == nil || !s.cfg.Leave() {
		time.Sleep(s.cfg.LameDuck)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTime)
	defer cancel()
	s.awaitIdle(ctx)
	err := s.http.Shutdown(ctx)
	if err == nil {
		return nil
	}
	err = errors.Join(fmt.Errorf("drain: %w", err), s.http.Close())
	s.leave()
	return err
}

// leave waits for the handlers of closed connections, because Close does not wait for them. Their
// contexts have ended.
func (s *Server) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	s.awaitIdle(ctx)
}

// awaitIdle waits until no request is in flight. The listener stays open meanwhile, so that late
// clients get an answer.
func (s *Server) awaitIdle(ctx context.Context) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for s.cfg.Service.Active() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
