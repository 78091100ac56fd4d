package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"

	"github.com/millrace-data/millrace/internal/quiet"
	"github.com/millrace-data/millrace/internal/socket"
)

// ServerConfig of a Server. Self and Holder are needed; of the rest a zero value means its default.
type ServerConfig struct {
	// Self is what this gateway tells others of itself. Its cluster is the one whose members may
	// ask.
	Self func() Hello
	// Holder answers what is asked.
	Holder Holder
	// Heard is told of the reader for whom something is asked, before it is answered. It must not
	// block.
	Heard func(dataset, generation string, r Reader)
	// Met is told who says hello, and from where. What it returns is told to them as the reason why
	// they are refused.
	Met func(h Hello, remote string) error
	// Reserve takes memory for a question from whatever bounds the gateway's, at once or not at
	// all. nil: nothing bounds it.
	Reserve func(n int64) (release func(), ok bool)
	// Member reports whether a gateway is a member, by its name and boot: only members are heard
	// when they leave. nil: any is.
	Member func(id, boot string) bool
	// Answered is told how many bytes a member, by the name that it gives itself, was sent. It must
	// not block.
	Answered func(member string, bytes int64)
	// Leaving is told what a gateway is said to hold that goes away. Who says so may wait for it,
	// but not long: he is told nothing meanwhile.
	Leaving func(ctx context.Context, l Leaving, remote string)

	TLS        *tls.Config // nil: plain HTTP
	SharedCert bool        // the names of certificates are not those of members
	Log        zerolog.Logger

	Connections int           // open at a time, 4096 and at most a quarter of the files that may be open
	Reads       int           // answered at a time, 512; above it CodeOverloaded
	SignEvery   time.Duration // between two signs of life while an answer is brought, 200 ms
	DrainTime   time.Duration // for what is in flight once Serve is told to end, 10 s
	WriteStall  time.Duration // for each MiB of an answer, 5 s
}

const (
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 16 << 10
	leaveTime      = 5 * time.Second // for handlers whose connections are closed
	leavePoll      = 10 * time.Millisecond

	defaultConnections = 4096
	defaultReads       = 512
	defaultSignEvery   = 200 * time.Millisecond
	defaultDrainTime   = 10 * time.Second
	defaultWriteStall  = 5 * time.Second
)

// Server answers the questions of other gateways. It is an http.Handler, for whoever has a
// transport of its own.
type Server struct {
	cfg     ServerConfig
	reads   chan struct{}       // one token for each read that is being answered
	active  atomic.Int64        // requests being answered
	beside  *semaphore.Weighted // bytes of questions that are not reserved
	scratch sync.Pool           // *[]byte of gatherBytes, in which small samples are put together
	quiet   quiet.Lines         // for the log
}

// NewServer builds a server. It starts nothing.
func NewServer(cfg ServerConfig) *Server {
	if cfg.Connections <= 0 {
		cfg.Connections = maxConnections()
	}
	if cfg.Reads <= 0 {
		cfg.Reads = defaultReads
	}
	if cfg.SignEvery <= 0 {
		cfg.SignEvery = defaultSignEvery
	}
	if cfg.DrainTime <= 0 {
		cfg.DrainTime = defaultDrainTime
	}
	if cfg.WriteStall <= 0 {
		cfg.WriteStall = defaultWriteStall
	}
	return &Server{cfg: cfg, reads: make(chan struct{}, cfg.Reads), beside: semaphore.NewWeighted(besideBudget)}
}

// maxConnections leaves file descriptors for the data port, the store and the index.
func maxConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultConnections
	}
	return int(max(1, min(defaultConnections, limit.Cur/4)))
}

// Serve answers connections of ln until ctx ends, then lets what is in flight come to its end for
// DrainTime, and closes what is left. A gateway that drains tells so in its Hello, and ends ctx
// when it wants to be asked no more. Serve closes ln, and returns when every connection and every
// answer has ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	server := &http.Server{
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          s.quiet.HTTP(s.cfg.Log, "peer connection"),
		Protocols:         new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	limited := socket.Limit(ln, s.cfg.Connections)
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limited.Crowded() {
			w.Header().Set("Connection", "close")
		}
		s.ServeHTTP(w, r)
	})
	var accepting net.Listener = limited
	if s.cfg.TLS != nil {
		accepting = tls.NewListener(limited, s.cfg.TLS)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(accepting) }()
	select {
	case err := <-stopped:
		return errors.Join(fmt.Errorf("serve peers at %s: %w", ln.Addr(), err), s.abandon(server))
	case <-ctx.Done():
	}
	s.drain(server)
	if err := <-stopped; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve peers at %s: %w", ln.Addr(), err)
	}
	return nil
}

// drain ends a server whose context has ended already, so its time is counted anew. Questions that
// are still open then are cut off, which is no failure: whoever asked turns to another gateway.
func (s *Server) drain(server *http.Server) {
	server.SetKeepAlivesEnabled(false)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTime)
	defer cancel()
	if server.Shutdown(ctx) == nil {
		return
	}
	s.cfg.Log.Warn().Dur("drain_timeout", s.cfg.DrainTime).Int64("open", s.active.Load()).
		Msg("questions of other gateways were still open and are cut off: they ask elsewhere")
	_ = s.abandon(server) // what cannot be closed was closed by the other side
}

// abandon closes every connection. That waits for nobody, but the contexts of those who answer end
// with it.
func (s *Server) abandon(server *http.Server) error {
	err := server.Close()
	rest := time.NewTimer(leaveTime)
	defer rest.Stop()
	tick := time.NewTicker(leavePoll)
	defer tick.Stop()
	for s.active.Load() > 0 {
		select {
		case <-tick.C:
		case <-rest.C:
			return err
		}
	}
	return err
}
