package peer

import (
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

// ServerConfig of a Server. Cluster, Met and Holder are needed; of the rest a zero value means its default.
type ServerConfig struct {
	// Cluster is the name of the one whose members may ask.
	Cluster string
	// Met takes the hello of a gateway, and from where it came. It returns what this gateway says
	// of itself, or the reason why the other one is refused.
	Met func(h Hello, remote string) (Hello, error)
	// Holder answers what is asked.
	Holder Holder
	// Heard is told of the reader for whom something is asked, before it is answered. It must not
	// block.
	Heard func(dataset, generation string, r Reader)
	// Reserve takes memory for a question from whatever bounds the gateway's, at once or not at
	// all. nil: nothing bounds it.
	Reserve func(n int64) (release func(), ok bool)
	// Answered is told how many bytes a member, by the name that it gives itself, was sent. It must
	// not block.
	Answered func(member string, bytes int64)

	TLS        *tls.Config // nil: plain HTTP
	SharedCert bool        // the names of certificates are not those of members
	Log        zerolog.Logger
	Trace      tracing.Tracer // records answers to questions that the asker records

	Connections int           // open at a time: half of what the data port may have
	Reads       int           // answered at a time, 512; above it CodeOverloaded
	DrainTime   time.Duration // for what is in flight once Serve is told to end, 10 s
	MostAge     time.Duration // of a connection, 1 h
}

const (
	defaultReads     = 512
	defaultSignEvery = 200 * time.Millisecond // between two signs of life while an answer is brought
	defaultDrainTime = 10 * time.Second
	writeStall       = 5 * time.Second // without a byte of an answer sent

	// besideBudget is what all questions together may take without asking ServerConfig.Reserve:
	// they are small, and a budget that a cache has filled must not refuse each of them.
	besideBudget = 8 << 20
)

// Server answers the questions of other gateways. It is an http.Handler, for whoever has a
// transport of its own.
type Server struct {
	cfg      ServerConfig
	reads    chan struct{}       // one token for each read that is being answered
	active   atomic.Int64        // requests being answered
	beside   *semaphore.Weighted // bytes of questions that are not reserved
	records  sync.Pool           // of sending.New
	logLimit loglimit.Limiter    // for the log
}

// NewServer builds a server. It starts nothing.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Connections <= 0 {
		cfg.Connections = max(1, port.MostConnections()/2)
	}
	if cfg.Reads <= 0 {
		cfg.Reads = defaultReads
	}
	if cfg.DrainTime <= 0 {
		cfg.DrainTime = defaultDrainTime
	}
	if cfg.MostAge <= 0 {
		cfg.MostAge = mostAge
	}
	return &Server{cfg: cfg, reads: make(chan struct{}, cfg.Reads), beside: semaphore.NewWeighted(besideBudget)}
}

// Serve answers connections of ln until ctx ends, then lets what is in flight come to its end for
// DrainTime, and closes what is left. A gateway that drains tells so in its Hello, and ends ctx
// when it wants to be asked no more. Serve closes ln, and returns when every connection and every
// answer has ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	err := port.New(port.Config{
		Handler: s, Service: s, Log: s.cfg.Log, Connections: s.cfg.Connections, DrainTime: s.cfg.DrainTime,
		TLS: s.cfg.TLS, MostAge: s.cfg.MostAge,
	}).Serve(ctx, ln)
	if errors.Is(err, context.DeadlineExceeded) {
		s.cfg.Log.Warn().Err(err).Dur("drain_timeout", s.cfg.DrainTime).
			Msg("questions of other gateways were still open and are cut off: they ask elsewhere")
		return nil
	}
	return err
}

// Drain implements port.Service. What is asked is answered to the end.
func (s *Server) Drain() {}

// Active implements port.Service.
func (s *Server) Active() int64 { return s.active.Load() }
