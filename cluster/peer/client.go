package peer

import (
	"bufio"
	"bytes"
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

// ClientConfig of a Client. Cluster and ID are needed; of the rest a zero value means its default.
type ClientConfig struct {
	Cluster string
	ID      string      // of the gateway that asks
	TLS     *tls.Config // nil: plain HTTP

	SharedCert bool // the names of certificates are not those of members

	// Transport carries the requests in place of connections of the client's own, as in a simulation. It must heed the
	// request's context, and may call a Server's ServeHTTP with a ResponseWriter of its own. The client learns that a
	// peer lives from httptrace.ContextClientTrace(request.Context()).Got1xxResponse: a transport calls it for each
	// informational status that the handler writes, when it would arrive, and so passes on what WriteHeader(102) says. A
	// transport that never calls it simulates a peer that is silent until its answer begins. A handler that panics with
	// http.ErrAbortHandler has broken its connection: RoundTrip, or the body's Read, returns an error.
	Transport http.RoundTripper

	Dial    time.Duration // to have a connection, 250 ms
	Silence time.Duration // without a sign of life before the answer, or without a byte within it, 500 ms
	PerPeer int           // reads of one peer at a time: 64, fewer where there are many peers. More wait for their turn.
	MostAge time.Duration // of a connection of the client's own: 1 h
}

const (
	defaultDial    = 250 * time.Millisecond
	defaultSilence = 500 * time.Millisecond
	defaultPerPeer = 64
	fewPeers       = 16              // have PerPeer reads each at a time; more peers share as many as these
	leastPerPeer   = 8               // reads of one peer at a time, however many peers there are
	dialsAtOnce    = 4               // to one peer, of those 64
	longestWait    = time.Minute     // for an answer to begin, however lively the peer is
	maxWait        = 2 * time.Minute // a server waits no longer, whatever it is told
	maxSigns       = 2 * int(maxWait/defaultSignEvery)

	// floorAfter is what every body may take, however small, before it must reach floorRate. Peers are near each other, but a link of
	// 1 Gbit/s that 64 answers share gives each of them 2 MB/s: a higher floor would throw away what has come, and load the link again.
	floorAfter = 2 * time.Second
	floorRate  = 1 << 20 // bytes a second

	clientIdle     = 90 * time.Second // less than the server's, which so seldom closes what is about to be used
	readBuffer     = 64 << 10         // small samples, and records of TLS, come many to a call to the kernel
	helloTotal     = 2 * time.Second
	maxReplyHeader = 16 << 10
)

// Client asks other gateways. It is safe for concurrent use.
type Client struct {
	cfg       ClientConfig
	scheme    string
	transport http.RoundTripper
	reads     *addressLimiter // a read counts as many as there are peers, fewPeers at least
	peers     atomic.Int64
	dials     *addressLimiter // of reads that have no connection yet; nil with a transport of one's own
	buffers   sync.Pool       // *bufio.Reader of readBuffer bytes, for bodies
}

// NewClient builds a client. It starts nothing.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Dial <= 0 {
		cfg.Dial = defaultDial
	}
	if cfg.Silence <= 0 {
		cfg.Silence = defaultSilence
	}
	if cfg.PerPeer <= 0 {
		cfg.PerPeer = defaultPerPeer
	}
	if cfg.MostAge <= 0 {
		cfg.MostAge = mostAge
	}
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

// Expect tells the client how many peers there are. Together they take fewPeers * PerPeer reads at a time, so that no gateway of a
// large cluster has more connections than it accepts.
func (c *Client) Expect(peers int) { c.peers.Store(int64(peers)) }

// share returns what one read counts.
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
		DialContext:            dial, // and no proxy: a peer is where it says that it is
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

// bufferedConn buffers reads below TLS, which alone would make a system call for each record.
type bufferedConn struct {
	net.Conn
	in *bufio.Reader
}

func (g *bufferedConn) Read(p []byte) (int, error) { return g.in.Read(p) }

// Close closes the connections that nobody uses. Those in use end with their requests.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// Hello says h to the gateway at an address, host:port, and returns what that says of itself.
func (c *Client) Hello(ctx context.Context, address string, h Hello) (Hello, error) {
	theirs, err := c.hello(ctx, address, h)
	if err != nil {
		return Hello{}, fmt.Errorf("say hello to %s: %w", address, err)
	}
	return theirs, nil
}

func (c *Client) hello(ctx context.Context, address string, h Hello) (theirs Hello, err error) {
	body, err := json.Marshal(h)
	if err != nil {
		return theirs, err
	}
	watched, w := startWatchdog(ctx, c.cfg.Dial, c.cfg.Silence, helloTotal)
	defer w.finish()
	resp, err := c.post(watched, w, address, helloPath, helloTotal, body, func() {})
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
		return theirs, fmt.Errorf("a hello without an id, or with a long name: %w", ErrMalformed)
	}
	return theirs, nil
}

// post sends one question under the eyes of w, and returns the answer when its body begins, an error if it says no. It calls connected
// when it has a connection. The question may be sent again on another connection where one has died unused: nothing that is
// asked or told here does harm twice.
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
		"Idempotency-Key": {}, // for the transport, which sends none
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
		w.within(floorAfter, "say why not")
		return nil, refusal(w, resp)
	}
	return resp, nil
}

// trace tells w of what net/http, or a transport in its place, hears from the peer before the answer.
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

// refusal reads an answer that says no.
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
	return fmt.Errorf("status %d, which no gateway gives here (%.200q): %w", resp.StatusCode, first, ErrMalformed)
}

// some is as much of what a stranger says as a log needs.
func some(said string, most int) string { return said[:min(len(said), most)] }

// plain is what another gateway says without what would move the cursor of whoever reads it.
func plain(said string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(said, ""))
}
