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
// The generation of the first answer is pinned: one call of Batches never mixes two
// versions of a dataset. Every body is compared with its Content-Length and its
// CRC-32C before anybody sees it.
package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Config says where the gateways are and how patient the client is. The zero value of a
// field means its default; Gateways is required.
type Config struct {
	Gateways []string // base URLs, asked in this order: the next one when one fails
	Dataset  string   // empty: the gateway's default dataset

	Deadline       time.Duration // one batch, all attempts and waits included: 2 min
	AttemptTimeout time.Duration // one attempt, its body included: 1 min
	MaxBatchBytes  int64         // a larger body is refused unread; memory is taken as bytes arrive: 4 GiB
	HTTP           *http.Client  // default: one with its own connection pool; redirects are refused unless it has a CheckRedirect
	UserAgent      string        // default: millrace-client
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
	cfg       Config
	gateways  []*url.URL
	preferred atomic.Int64 // index of the gateway that answered last
}

// New checks cfg and returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	if len(cfg.Gateways) == 0 {
		return nil, errors.New("new client: no gateway given")
	}
	if cfg.Deadline < 0 || cfg.AttemptTimeout < 0 || cfg.MaxBatchBytes < 0 {
		return nil, errors.New("new client: a time or size is negative")
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.AttemptTimeout == 0 {
		cfg.AttemptTimeout = DefaultAttemptTimeout
	}
	if cfg.MaxBatchBytes == 0 {
		cfg.MaxBatchBytes = DefaultMaxBatchBytes
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "millrace-client"
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: newTransport()}
	}
	if cfg.HTTP.CheckRedirect == nil {
		// A gateway never redirects: what does is in its place, and may point anywhere.
		h := *cfg.HTTP
		h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cfg.HTTP = &h
	}
	c := &Client{cfg: cfg}
	for _, g := range cfg.Gateways {
		u, err := parseGateway(g)
		if err != nil {
			return nil, fmt.Errorf("new client: %w", err)
		}
		c.gateways = append(c.gateways, u)
	}
	return c, nil
}

// parseGateway reads a base URL; a bare host and port means http. No fault repeats a password.
func parseGateway(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("gateway: not a URL: want http://host:port")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("gateway %q: want http://host:port", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("gateway %q: want a base URL, without a query", u.Redacted())
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// dialTimeout is short, since another gateway may answer meanwhile.
const dialTimeout = 5 * time.Second

// newTransport keeps enough idle connections that parallel readers do not dial again and
// again, and never asks for compression: batches are stored bytes with a known length.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true,
		ReadBufferSize:      64 << 10,
	}
}

// CloseIdle closes connections that no request uses.
func (c *Client) CloseIdle() { c.cfg.HTTP.CloseIdleConnections() }
