package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/internal/loglimit"
	"github.com/millrace-data/millrace/internal/port"
	"github.com/millrace-data/millrace/internal/tracing"
)

// ServerConfig configures a Server. Cluster, Met and Holder are required; the zero value of other
// fields means the default.
type ServerConfig struct {
	// Cluster is the name of the cluster. Only its members may ask.
	Cluster string
	// Met handles the hello of a gateway, and receives the address that the hello came from. It
	// returns this gateway's hello, or the reason for refusing the other gateway.
	Met func(h Hello, remote string) (Hello, error)
	// Holder answers questions.
	Holder Holder
	// Heard is called with the reader of a question before it is answered. It must not block.
	Heard func(dataset, generation string, r Reader)
	// Reserve reserves memory for a question in the gateway's budget, without waiting. If
	// Reserve is nil, there is no budget.
	Reserve func(n int64) (release func(), ok bool)
	// Answered is called with the number of bytes sent to a member, under the name that the
	// member states. It must not block.
	Answered func(member string, bytes int64)

	TLS        *tls.Config // nil: plain HTTP
	SharedCert bool        // certificates are not checked for member names
	Log        zerolog.Logger
	Trace      tracing.Tracer // records the answer to a question if the asker records the question

	Connections int           // maximum open connections: default half of the data port's limit
	Reads       int           // maximum concurrent answers, default 512; above it CodeOverloaded
	DrainTime   time.Duration // time for running answers after Serve's ctx ends, default 10 s
	MostAge     time.Duration // maximum age of a connection, default 1 h
}

const (
	defaultReads     = 512
	defaultSignEvery = 200 * time.Millisecond // time between two signs of life while an answer is loaded
	defaultDrainTime = 10 * time.Second
	writeStall       = 5 * time.Second // maximum time without progress in sending an answer

	// unreservedBudget is the memory that all questions together may use without
	// ServerConfig.Reserve. Questions are small. A budget that is filled by a cache must not
	// refuse all of them.
	unreservedBudget = 8 << 20
)

// Server answers the questions of other gateways. It is an http.Handler, so other transports can
// use it.
type Server struct {
	cfg        ServerConfig
	reads      chan struct{}       // holds one token for each running answer
	active     atomic.Int64        // running requests
	unreserved *semaphore.Weighted // bytes of questions that do not count against the gateway's budget
	records    sync.Pool           // pool for sending.New
	logLimit   loglimit.Limiter    // limits log lines
}

// NewServer returns a server. It starts no goroutines.
func NewServer(cfg ServerConfig) *Server {
	cfg.Connections = cmp.Or(cfg.Connections, max(1, port.MostConnections()/2))
	cfg.Reads = cmp.Or(cfg.Reads, defaultReads)
	cfg.DrainTime = cmp.Or(cfg.DrainTime, defaultDrainTime)
	cfg.MostAge = cmp.Or(cfg.MostAge, mostAge)
	return &Server{cfg: cfg, reads: make(chan struct{}, cfg.Reads), unreserved: semaphore.NewWeighted(unreservedBudget)}
}

// Serve accepts connections on ln until ctx ends, then waits up to DrainTime for running answers,
// and closes the remaining connections. A draining gateway announces that in its Hello, and ends
// ctx when it no longer accepts questions. Serve closes ln, and returns when every connection and
// every answer has ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	err := port.New(port.Config{
		Handler: s, Service: s, Log: s.cfg.Log, Connections: s.cfg.Connections, DrainTime: s.cfg.DrainTime,
		TLS: s.cfg.TLS, MostAge: s.cfg.MostAge,
	}).Serve(ctx, ln)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Warn().Err(err).Dur("drain_timeout", s.cfg.DrainTime).
			Msg("canceled running answers to other gateways, which will ask elsewhere")
		return nil
	}
	return err
}

// Drain implements port.Service. It does nothing: running answers are completed.
func (s *Server) Drain() {}

// Active implements port.Service.
func (s *Server) Active() int64 { return s.active.Load() }
