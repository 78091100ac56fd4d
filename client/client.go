// Package client reads epochs from Millrace gateways. It needs the standard library only.
//
// A batch is an address: its bytes depend on the generation of the index, the plan, the
// epoch and the batch's number, and on nothing a gateway remembers. So the client may ask
// any gateway, ask again after a fault, and go on where a job stopped from two integers:
//
//	c, err := client.New(client.Config{Gateways: []string{"http://gw-0:8080", "http://gw-1:8080"}})
//	...
//	for b, err := range c.Batches(ctx, client.Options{Epoch: 3, From: 170, Rank: 0, WorldSize: 4}) {
//		if err != nil {
//			return err
//		}
//		train(b.Bytes())
//		checkpoint(b.Epoch, b.Number+1)
//	}
//
// The gateways may be listed, or be the addresses of one name. The near one is asked, or the one that
// Config.Home gives a rank; another one where it fails. A body that broke is gone on with where it
// stopped, by whichever gateway has the rest: their batches are the same.
//
// The generation of the first answer is pinned: one call of Batches never mixes two
// versions of a dataset. Ranks of one job all get Options.Generation from rank 0, which asks Describe: where gateways
// move to new generations by themselves, one of several ranks without it is refused (ErrNoGeneration). Every body is compared with its Content-Length and its
// CRC-32C before anybody sees it.
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

// Config says where the gateways are and how patient the client is. The zero value of a
// field means its default; Gateways is required.
type Config struct {
	// Gateways are base URLs. A pattern such as http://gateways-{0..7}.gateways:8080 stands for one gateway for each number, whether
	// its name can be looked up yet or not. srv:_http._tcp.NAME stands for the SRV records of a service, in the order of the numbers
	// at the end of the targets' first labels; _https for gateways that speak https. dns:NAME:PORT stands for all addresses of a
	// name, and so does http://NAME:PORT if it has
	// several, unless HTTP or Home is given; with https a name stays a name, since certificates are made out to it.
	// Names are looked up again every half minute and when all gateways have failed. unix:PATH is a gateway that listens at a
	// Unix socket; it wants the client's own HTTP.
	Gateways []string

	// Home says which of the gateways, numbered as in Gateways, a rank asks first: HomeByRank is for share=locality, and
	// else spreads the ranks over a list, a pattern or SRV records. nil: the one that answers quickest, and of those alike the
	// first; the addresses of a name are in another order for each client.
	Home func(rank, worldSize uint64, gateways int) int

	Dataset string // empty: the gateway's default dataset

	// Token goes with each request, as `Authorization: Bearer`. TokenFile is a file that has it: it is read again when a
	// gateway refuses the token (401), and the request is sent once more if the file has another token by then. Without
	// both, the environment's MILLRACE_TOKEN or MILLRACE_TOKEN_FILE gives the token.
	Token, TokenFile string

	// InsecurePlainHTTP allows http:// gateways on other machines to get the token, for networks that encrypt by
	// themselves. So does MILLRACE_INSECURE_PLAIN_HTTP=true.
	InsecurePlainHTTP bool

	// TLS says for https:// gateways which authorities are trusted, and which certificate the client shows. nil: those of the
	// system, or of the file that SSL_CERT_FILE names, and no certificate. With HTTP set it belongs there.
	TLS *tls.Config

	// SharedMemory takes batches as memory that a gateway on this machine shares, without a copy, where that can be: at a Unix socket, of
	// batches in the form framed, on Linux. All others come as bytes, and Batch.Shared says which way. Batch.Close is then needed for
	// each batch: memory that is not let go stays held until the process ends, and later batches come as bytes.
	SharedMemory bool

	// FailRefused returns the error at once where every gateway refuses the connection, instead of retrying until Deadline.
	FailRefused bool

	// Retrying is called with the last fault before each wait between attempts. It must not block. nil: nothing is called.
	Retrying func(err error)

	Deadline       time.Duration // one batch, all attempts and waits included: 2 min
	AttemptTimeout time.Duration // one attempt, its body included: 1 min
	MaxBatchBytes  int64         // a larger body is refused unread; memory is taken as bytes arrive: 4 GiB
	HTTP           *http.Client  // default: one with its own connection pool; redirects are refused unless it has a CheckRedirect and there is no token. Signs of life want connections beside those of batches
	UserAgent      string        // default: millrace-client

	Lookup func(ctx context.Context, host string) (addresses []string, err error) // default: that of net.DefaultResolver
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
		return nil, errors.New("new client: no gateway given")
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
	cfg.Token = "" // whoever prints a client does not print it
	own := cfg.HTTP != nil
	switch {
	case !own:
		cfg.HTTP = &http.Client{Transport: newTransport(cfg)}
	case cfg.TLS != nil:
		return nil, errors.New("new client: TLS and HTTP are both given: HTTP's transport has a TLSClientConfig")
	}
	if cfg.HTTP.CheckRedirect == nil || token != nil {
		// A gateway never redirects. A redirecting server stands in its place, and may point anywhere.
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

// parseSources reads Config.Gateways and names all faults together.
func parseSources(cfg Config, spread, token, own bool) ([]source, error) {
	plain, err := plainAllowed(cfg)
	faults := []error{err}
	var all []source
	for _, written := range cfg.Gateways {
		expanded, err := expand(written)
		faults = append(faults, err)
		for _, g := range expanded {
			// A name of a pattern is one gateway, and is not spread over its addresses.
			s, err := parseSource(g, spread && g == written)
			switch {
			case err != nil:
			case s.socket() && own:
				err = fmt.Errorf("gateway %s: HTTP is given, and dials no Unix socket", g)
			case token && !plain && !s.socket():
				err = refusePlain(s.base)
			case s.kind == addresses && cfg.Home != nil:
				err = fmt.Errorf("gateway %q: Home wants gateways in one order for all ranks, and the addresses of a name have none; "+
					"give a pattern such as http://gateways-{0..7}.%s, or srv:_http._tcp.%s", g, s.base.Host, s.base.Hostname())
			}
			if all, faults = append(all, s), append(faults, err); err != nil {
				break // the others of a pattern have the same fault
			}
		}
	}
	return all, errors.Join(faults...)
}

// parseGateway reads a base URL; a bare host and port means http. No error repeats a secret.
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

// dialTimeout is short, since another gateway may answer meanwhile.
const dialTimeout = 5 * time.Second

// newTransport keeps enough idle connections that parallel readers do not dial again and
// again, and never asks for compression: batches are stored bytes with a known length.
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
		t.ClientSessionCache = tls.NewLRUClientSessionCache(64) // a new connection to a gateway shakes hands quicker
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

// proxy goes by the name that the user has given, not by the address that it was looked up to.
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
