package peer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/millrace-data/millrace/internal/tracing"
)

// ClientConfig configures a Client. Cluster and ID are required; the zero value of other fields
// means the default.
type ClientConfig struct {
	Cluster string
	ID      string      // ID of the gateway that asks
	TLS     *tls.Config // nil: plain HTTP

	SharedCert bool // certificates are not checked for member names

	// Transport replaces the client's own connections, for example in a simulation. It must
	// respect the request's context, and may call a Server's ServeHTTP with its own
	// ResponseWriter. For each informational status that the handler writes, such as
	// WriteHeader(102), it calls httptrace.ContextClientTrace(request.Context()).Got1xxResponse
	// when the status would arrive. This call tells the client that the peer is alive. Without
	// it a peer appears silent until its answer begins. If a handler panics with
	// http.ErrAbortHandler, RoundTrip or the body's Read must return an error.
	Transport http.RoundTripper

	Dial    time.Duration // timeout for opening a connection: 250 ms
	Silence time.Duration // timeout without a sign of life before the answer, or without a byte of the answer: 500 ms
	Total   time.Duration // timeout for a whole hello: 2 s
	PerPeer int           // concurrent reads from one peer: 64, fewer if there are many peers; others wait
	MostAge time.Duration // maximum age of the client's own connections: 1 h
}

const (
	defaultDial    = 250 * time.Millisecond
	defaultSilence = 500 * time.Millisecond
	defaultTotal   = 2 * time.Second
	defaultPerPeer = 64
	fewPeers       = 16              // up to this number of peers each has PerPeer reads; more peers share the same total
	leastPerPeer   = 8               // minimum concurrent reads from one peer, for any number of peers
	dialsAtOnce    = 4               // concurrent dials to one peer
	longestWait    = time.Minute     // timeout for an answer to begin, even with signs of life
	maxWait        = 2 * time.Minute // maximum wait of a server, also for a later deadline
	maxSigns       = 2 * int(maxWait/defaultSignEvery)

	// floorAfter is the time before a body must reach floorRate, even if it is small. A link of 1
	// Gbit/s shared by 64 answers gives each of them 2 MB/s. A higher floor would discard received
	// bytes and load the link again.
	floorAfter = 2 * time.Second
	floorRate  = 1 << 20 // bytes per second

	clientIdle     = 90 * time.Second // shorter than the server's, so the server seldom closes a connection that is about to be used
	readBuffer     = 64 << 10         // holds many small samples and TLS records per system call
	maxReplyHeader = 16 << 10
)

// Client sends questions and hellos to other gateways. It is safe for concurrent use.
type Client struct {
	cfg       ClientConfig
	scheme    string
	transport http.RoundTripper
	reads     *addressLimiter // each read acquires one unit per peer, at least fewPeers units
	peers     atomic.Int64
	dials     *addressLimiter // limits the dials of reads without a connection; nil with ClientConfig.Transport
	buffers   sync.Pool       // *bufio.Reader of readBuffer bytes, for bodies
}

// NewClient returns a client. It starts no goroutines.
func NewClient(cfg ClientConfig) *Client {
	cfg.Dial = cmp.Or(cfg.Dial, defaultDial)
	cfg.Silence = cmp.Or(cfg.Silence, defaultSilence)
	cfg.Total = cmp.Or(cfg.Total, defaultTotal)
	cfg.PerPeer = cmp.Or(cfg.PerPeer, defaultPerPeer)
	cfg.MostAge = cmp.Or(cfg.MostAge, mostAge)
	c := &Client{cfg: cfg, scheme: "http", transport: cfg.Transport, reads: newAddressLimiter(cfg.PerPeer * fewPeers)}
	if cfg.TLS != nil {
		c.scheme = "https"
	}
	if c.transport == nil {
		c.transport = &renewingTransport{age: cfg.MostAge, fresh: func() *http.Transport { return newTransport(cfg) }}
		c.dials = newAddressLimiter(dialsAtOnce)
	}
	return c
}

// Expect sets the number of peers. Together they get at most fewPeers * PerPeer concurrent reads,
// so no gateway of a large cluster has more connections than it accepts.
func (c *Client) Expect(peers int) { c.peers.Store(int64(peers)) }

// share returns the units of one read in the reads limiter.
func (c *Client) share() int64 {
	most := c.reads.most / min(leastPerPeer, int64(c.cfg.PerPeer))
	return max(fewPeers, min(most, c.peers.Load()))
}

func newTransport(cfg ClientConfig) *http.Transport {
	dialer := &net.Dialer{Timeout: cfg.Dial, KeepAlive: 15 * time.Second}
	dial := dialer.DialContext
	if cfg.TLS != nil {
		dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &bufferedConn{c, bufio.NewReaderSize(c, readBuffer)}, nil
		}
	}
	t := &http.Transport{
		DialContext:            dial, // no proxy: a peer is reached directly
		TLSClientConfig:        cfg.TLS,
		TLSHandshakeTimeout:    cfg.Silence,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    cfg.PerPeer,
		IdleConnTimeout:        clientIdle,
		MaxResponseHeaderBytes: maxReplyHeader,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

// bufferedConn buffers reads below TLS. Without it TLS makes a system call for each record.
type bufferedConn struct {
	net.Conn
	in *bufio.Reader
}

func (g *bufferedConn) Read(p []byte) (int, error) { return g.in.Read(p) }

// Close closes idle connections. Connections in use end with their requests.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Hello sends h to the gateway at an address, host:port, and returns that gateway's hello.
func (c *Client) Hello(ctx context.Context, address string, h Hello) (Hello, error) {
	theirs, err := c.hello(ctx, address, h)
	if err != nil {
		return Hello{}, fmt.Errorf("send hello to %s: %w", address, err)
	}
	return theirs, nil
}

func (c *Client) hello(ctx context.Context, address string, h Hello) (theirs Hello, err error) {
	body, err := json.Marshal(h)
	if err != nil {
		return theirs, err
	}
	watched, w := startWatchdog(ctx, c.cfg.Dial, c.cfg.Silence, c.cfg.Total)
	defer w.finish()
	resp, err := c.post(watched, w, address, helloPath, c.cfg.Total, body, func() {})
	if err != nil {
		return theirs, err
	}
	defer resp.Body.Close()
	const most = maxHelloBytes + maxHeldBytes
	text, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return theirs, w.fault(err)
	}
	if len(text) > most {
		return theirs, fmt.Errorf("more than %d bytes: %w", most, ErrMalformed)
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		return theirs, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := certified(resp.TLS, theirs.ID); err != nil && !c.cfg.SharedCert {
		return theirs, err
	}
	if !theirs.named() {
		return theirs, fmt.Errorf("the hello has no ID, or its name is too long: %w", ErrMalformed)
	}
	return theirs, nil
}

// post sends one request, watched by w. It returns the answer when the answer's body begins, or an
// error if the peer refuses. It calls connected when it has a connection. If the connection was
// closed before it was used, net/http may repeat the request on another one: all requests are
// idempotent.
func (c *Client) post(ctx context.Context, w *watchdog, address, path string, wait time.Duration, body []byte, connected func()) (*http.Response, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	req, err := http.NewRequestWithContext(c.trace(ctx, w, connected), http.MethodPost, c.scheme+"://"+address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuestion, err)
	}
	req.Header = http.Header{
		ClusterHeader:     {c.cfg.Cluster},
		VersionHeader:     {strconv.Itoa(Version)},
		MemberHeader:      {c.cfg.ID},
		DeadlineHeader:    {strconv.FormatInt(max(1, wait.Milliseconds()), 10)},
		"Idempotency-Key": {}, // marks the request as idempotent for the transport, which does not send this header
	}
	tracing.Inject(ctx, req.Header)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if errors.Is(err, ErrMalformed) {
			return nil, err
		}
		return nil, w.fault(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		w.within(floorAfter, "send its error")
		return nil, refusal(w, resp)
	}
	return resp, nil
}

// trace makes the events before the answer known to w. The events come from net/http, or from the
// transport that replaces it.
func (c *Client) trace(ctx context.Context, w *watchdog, connected func()) context.Context {
	signs := 0
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			connected()
			w.heard()
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { w.heard() },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			ProgressOf(ctx).Alive()
			w.heard()
			if signs++; signs > maxSigns {
				return fmt.Errorf("more than %d signs of life: %w", maxSigns, ErrMalformed)
			}
			return nil
		},
	})
}

// refusal reads the error of a refused request.
func refusal(w *watchdog, resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if err != nil {
		return w.fault(err)
	}
	var said struct{ Code, Detail string }
	if err := json.Unmarshal(text, &said); err == nil && said.Code != "" && resp.StatusCode >= http.StatusBadRequest {
		return &RefusalError{Status: resp.StatusCode, Code: some(said.Code, maxNameBytes), Detail: plain(some(said.Detail, maxDetailBytes))}
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Errorf("unexpected status %d, probably not from a gateway (%.200q): %w", resp.StatusCode, first, ErrMalformed)
}

// some shortens a text from a peer to the length most, for the log.
func some(said string, most int) string { return said[:min(len(said), most)] }

// plain replaces control characters in a text from a peer, which could move the cursor of a
// terminal.
func plain(said string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(said, ""))
}
