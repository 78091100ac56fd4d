package s3backend

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// newTransport returns an HTTP/1.1 transport with bounded connections. HTTP/2 is off:
// one wedged connection would hold every stream.
func newTransport(conns int, tlsConfig *tls.Config, lim limits) *http.Transport {
	d := &dialer{
		net: net.Dialer{
			Timeout:         lim.dial,
			Control:         setUserTimeout,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
		},
		good: map[string]addresses{},
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.dial,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   lim.tls,
		Protocols:             protocols,
		MaxConnsPerHost:       conns,
		MaxIdleConns:          conns,
		MaxIdleConnsPerHost:   conns,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true,
		ReadBufferSize:        64 << 10,
		ExpectContinueTimeout: time.Second,
	}
}

// dialer remembers for a while where a name pointed, for when the name service fails.
type dialer struct {
	net  net.Dialer
	mu   sync.Mutex
	good map[string]addresses // by host and port
}

type addresses struct {
	last string
	at   time.Time
}

const remember = 5 * time.Minute

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, network, address)
	if err == nil {
		d.mu.Lock()
		d.good[address] = addresses{last: conn.RemoteAddr().String(), at: time.Now()}
		d.mu.Unlock()
		return conn, nil
	}
	var dns *net.DNSError
	if !errors.As(err, &dns) || ctx.Err() != nil {
		return nil, err
	}
	d.mu.Lock()
	known, ok := d.good[address]
	d.mu.Unlock()
	if !ok || time.Since(known.at) > remember {
		return nil, err
	}
	return d.net.DialContext(ctx, network, known.last)
}

// seen is what minio-go does not hand on of an answer.
type seen struct {
	status int
	length int64 // of the body, -1 when it is not announced
}

type seenKey struct{}

// recorder notes in the request's context what was answered.
type recorder struct{ next http.RoundTripper }

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if s, ok := req.Context().Value(seenKey{}).(*seen); ok && err == nil {
		s.status, s.length = resp.StatusCode, resp.ContentLength
	}
	return resp, err
}
