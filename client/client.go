// Package client reads epochs from Millrace gateways. It depends only on the standard library.
//
// The bytes of a batch depend only on the index generation, the plan, the epoch and the batch
// number. Gateways keep no state per reader. The client can therefore send each request to any
// gateway, retry it elsewhere, and resume a job from a State, on other ranks:
//
//	c, err := client.New(client.Config{Gateways: []string{"http://gw-0:8080", "http://gw-1:8080"}})
//	...
//	opt, err := c.Resume(ctx, client.Options{Rank: 0, WorldSize: 4}, state)
//	...
//	for b, err := range c.Batches(ctx, opt) {
//		if err != nil {
//			return err
//		}
//		train(b.Bytes())
//		state = opt.After(b)
//	}
//
// Gateways are given as a list or as one name with several addresses. The client prefers the
// nearest gateway, or the one that Config.Home assigns to a rank, and fails over to the others.
// After a broken transfer it requests only the missing bytes, from any gateway: all of them send
// the same bytes.
//
// A call of Batches pins the generation of the first answer and never mixes two generations. For a
// job with several ranks, rank 0 calls Describe and passes the generation to all ranks as
// Options.Generation. Without it, reads fail with ErrNoGeneration if the gateways load new
// generations by themselves. The client checks each body against its Content-Length and CRC-32C
// before it returns it.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config holds the gateways' addresses, the credentials and the timeouts of a client. A zero field
// means its default; only Gateways is required.
type Config struct {
	// Gateways are base URLs, in one of these forms. The client looks names up again every 30 s and
	// after all gateways have failed.
	//
	//   - http://HOST:PORT, https://HOST:PORT: one gateway. If HTTP and Home are not set, each address
	//     of an http name with several addresses is a gateway of its own. An https name is not split:
	//     its certificate names the host.
	//   - http://gateways-{0..7}.gateways:8080: one gateway per number, also for names without a DNS
	//     record yet.
	//   - srv:_http._tcp.NAME: the SRV records of a service, ordered by the number at the end of the
	//     target's first label. _https selects gateways with TLS.
	//   - dns:NAME:PORT: one gateway per address of the name.
	//   - unix:PATH: a gateway that listens on a Unix socket. It requires HTTP to be nil.
	Gateways []string

	// Home returns the index in Gateways of the gateway that a rank uses first. HomeByRank
	// suits share=locality and otherwise spreads ranks over a list, a pattern or SRV records.
	// With nil, clients prefer the gateway with the lowest latency, and the first of several
	// equal ones; each client shuffles the addresses of a name.
	Home func(rank, worldSize uint64, gateways int) int

	Dataset string // dataset to read; empty: the gateway's default

	// Token is sent with each request as `Authorization: Bearer`. TokenFile is a file with the
	// token. When a gateway refuses the token (401), the client rereads the file and retries once
	// if the token has changed. If both are empty, the environment variable MILLRACE_TOKEN or
	// MILLRACE_TOKEN_FILE is used.
	Token, TokenFile string

	// InsecurePlainHTTP allows sending the token to http:// gateways on other machines, for
	// networks with encryption of their own. MILLRACE_INSECURE_PLAIN_HTTP=true does the same.
	InsecurePlainHTTP bool

	// TLS sets the trusted certificate authorities and the client certificate for https://
	// gateways. nil: the system's authorities, or those in the file SSL_CERT_FILE, and no client
	// certificate. It cannot be combined with HTTP, which has its own TLS settings.
	TLS *tls.Config

	// SharedMemory reads batches from memory that a gateway on this machine shares, without
	// copying. It applies to framed batches over a Unix socket on Linux; other batches are sent as
	// bytes (see Batch.Shared). Each batch must then be closed. The gateway cannot reuse the memory
	// of a batch that is not closed, and eventually sends bytes instead.
	SharedMemory bool

	// FailRefused returns an error immediately when all gateways refuse connections, instead of
	// retrying until Deadline.
	FailRefused bool

	// Retrying is called with the last error before each wait between rounds of attempts. It must
	// not block. nil: no call.
	Retrying func(err error)

	Deadline       time.Duration // per batch, with all attempts and waits; default 2 min
	AttemptTimeout time.Duration // per attempt, with the body; default 1 min
	MaxBatchBytes  int64         // larger bodies are refused unread; default 4 GiB
	// HTTP sends the requests. nil: a client with its own connection pool. Redirects are refused
	// unless HTTP has a CheckRedirect and no token is set. Liveness probes need connections in
	// addition to those of batches.
	HTTP      *http.Client
	UserAgent string // default millrace-client

	// Lookup resolves host names. nil: net.DefaultResolver.LookupHost.
	Lookup func(ctx context.Context, host string) (addresses []string, err error)
}

// Defaults of Config.
const (
	DefaultDeadline       = 2 * time.Minute
	DefaultAttemptTimeout = time.Minute
	DefaultMaxBatchBytes  = 4 << 30
)

// Client talks to one or more gateways that serve the same dataset. It is safe for
// concurrent use.
type Client struct {
	cfg   Config
	token *tokenSource
	fleet *fleet

	generations *generationCheck
}

// New checks cfg and returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	if len(cfg.Gateways) == 0 {
		return nil, errors.New("new client: no gateway is given")
	}
	if cfg.Deadline < 0 || cfg.AttemptTimeout < 0 || cfg.MaxBatchBytes < 0 {
		return nil, errors.New("new client: a time or size is negative")
	}
	cfg.Deadline, cfg.AttemptTimeout = cmp.Or(cfg.Deadline, DefaultDeadline), cmp.Or(cfg.AttemptTimeout, DefaultAttemptTimeout)
	cfg.MaxBatchBytes, cfg.UserAgent = cmp.Or(cfg.MaxBatchBytes, DefaultMaxBatchBytes), cmp.Or(cfg.UserAgent, "millrace-client")
	lookup := cfg.Home == nil && (cfg.HTTP == nil || cfg.Lookup != nil)
	if cfg.Lookup == nil {
		cfg.Lookup = net.DefaultResolver.LookupHost
	}
	token, err := newTokenSource(cfg)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	cfg.Token = "" // printing a Client must not reveal the token
	own := cfg.HTTP != nil
	switch {
	case !own:
		cfg.HTTP = &http.Client{Transport: newTransport(cfg)}
	case cfg.TLS != nil:
		return nil, errors.New("new client: TLS and HTTP are both given: set TLS in HTTP's transport instead (TLSClientConfig)")
	}
	if cfg.HTTP.CheckRedirect == nil || token != nil {
		// A gateway never redirects. A server that does is not a gateway, and may redirect the
		// token anywhere.
		h := *cfg.HTTP
		h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cfg.HTTP = &h
	}
	c := &Client{cfg: cfg, token: token, generations: &generationCheck{}}
	c.fleet = &fleet{home: cfg.Home, lookup: cfg.Lookup, lookupSRV: net.DefaultResolver.LookupSRV, probe: c.ready, asking: make(chan struct{}, 1)}
	if c.fleet.sources, err = parseSources(cfg, lookup, token != nil, own); err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	return c, nil
}

// parseSources parses Config.Gateways and reports all faults together.
func parseSources(cfg Config, spread, token, own bool) ([]source, error) {
	plain, err := plainAllowed(cfg)
	faults := []error{err}
	var all []source
	for _, written := range cfg.Gateways {
		expanded, err := expand(written)
		faults = append(faults, err)
		for _, g := range expanded {
			// Each name of a pattern is one gateway: its addresses are not split.
			s, err := parseSource(g, spread && g == written)
			switch {
			case err != nil:
			case s.socket() && own:
				err = fmt.Errorf("gateway %s: a Unix socket cannot be combined with HTTP, which does not connect to sockets", g)
			case token && !plain && !s.socket():
				err = refusePlain(s.base)
			case s.kind == addresses && cfg.Home != nil:
				err = fmt.Errorf("gateway %q: Home requires the same gateway order for all ranks, and the addresses of a name have none; "+
					"give a pattern such as http://gateways-{0..7}.%s, or srv:_http._tcp.%s", g, s.base.Host, s.base.Hostname())
			}
			if all, faults = append(all, s), append(faults, err); err != nil {
				break // the other names of the pattern cause the same error
			}
		}
	}
	return all, errors.Join(faults...)
}

// parseGateway parses a base URL; a bare HOST:PORT means http. Its errors never contain a secret.
func parseGateway(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if tokenForm.MatchString(s) || err == nil && u.User != nil {
		return nil, errSecretInAddress
	}
	if err != nil {
		return nil, errors.New("gateway: not a URL: want http://HOST:PORT or HOST:PORT")
	}
	base := u.Scheme + "://" + u.Host
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("gateway %q: want http://HOST:PORT or HOST:PORT", base)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("gateway %q: want a base URL, without a query", base)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// dialTimeout is short because the client can fail over to another gateway.
const dialTimeout = 5 * time.Second

// newTransport returns a transport that retains idle connections for parallel readers, so that they
// rarely dial. It disables compression: batches are stored bytes of known length.
func newTransport(cfg Config) *http.Transport {
	t := cfg.TLS.Clone()
	if t == nil {
		t = &tls.Config{}
	}
	idle := 90 * time.Second
	if cfg.SharedMemory {
		idle = sharedIdle
	}
	if t.ClientSessionCache == nil {
		t.ClientSessionCache = tls.NewLRUClientSessionCache(64) // resumes TLS sessions on new connections
	}
	return &http.Transport{
		TLSClientConfig:     t,
		Proxy:               proxy,
		DialContext:         dialer(cfg.SharedMemory),
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     idle,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true,
		ReadBufferSize:      64 << 10,
	}
}

// proxy selects the proxy by the configured name of the gateway, not by its resolved address.
func proxy(r *http.Request) (*url.URL, error) {
	if r.Host != "" && r.Host != r.URL.Host {
		named := *r.URL
		named.Host = r.Host
		r = &http.Request{URL: &named}
	}
	return http.ProxyFromEnvironment(r)
}

// CloseIdle closes connections that no request uses.
func (c *Client) CloseIdle() { c.cfg.HTTP.CloseIdleConnections() }
