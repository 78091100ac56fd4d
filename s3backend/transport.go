package s3backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/millrace-data/millrace/internal/socket"
)

// maxHeader limits the size of a response header, which no budget counts. S3 stores 2 KiB of
// metadata with an object; other services store more.
const maxHeader = 256 << 10

// newTransport returns an HTTP/1.1 transport with a limited number of connections. HTTP/2 is off,
// since a single stuck connection would block all its streams.
func newTransport(conns int, tlsConfig *tls.Config, policy retryPolicy) *http.Transport {
	d := &dialer{net: net.Dialer{Timeout: policy.dial}, good: map[string]addresses{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.dial,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   policy.tls,
		Protocols:             protocols,
		MaxConnsPerHost:       conns,
		MaxIdleConns:          conns,
		MaxIdleConnsPerHost:   conns,
		IdleConnTimeout:       30 * time.Second,
		DisableCompression:    true,
		ReadBufferSize:        64 << 10,
		ExpectContinueTimeout: time.Second,

		MaxResponseHeaderBytes: maxHeader,
	}
}

// dialer caches the last address of each host name for a while, in case name resolution fails.
type dialer struct {
	net  net.Dialer
	mu   sync.Mutex
	good map[string]addresses // last addresses, by host and port
}

type addresses struct {
	last string
	at   time.Time
}

const remember = 5 * time.Minute

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, network, address)
	d.mu.Lock()
	if err == nil {
		d.good[address] = addresses{last: conn.RemoteAddr().String(), at: time.Now()}
	}
	known := d.good[address]
	d.mu.Unlock()
	if _, noName := errors.AsType[*net.DNSError](err); noName && ctx.Err() == nil && time.Since(known.at) <= remember {
		conn, err = d.net.DialContext(ctx, network, known.last)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		socket.EndWhenDead(tcp)
	}
	return conn, err
}

// errorTransport converts an error response to an error. It uses headers that minio-go ignores: the
// store's clock and the bucket's region.
type errorTransport struct {
	next    http.RoundTripper
	region  string // the region that requests are signed for
	profile string // the profile whose credentials sign them; "": another source
}

func (r errorTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, classify(err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, r.refusal(resp)
	}
	return resp, nil
}

// maxRefusal limits the number of bytes read from the body of an error response.
const maxRefusal = 64 << 10

func (r errorTransport) refusal(resp *http.Response) *failure {
	a := minio.ErrorResponse{}
	if xml.NewDecoder(io.LimitReader(resp.Body, maxRefusal)).Decode(&a) != nil || a.Code == "" {
		a = minio.ErrorResponse{Code: codeOf(resp.StatusCode)}
	}
	a.StatusCode = resp.StatusCode
	a.Code = cmp.Or(resp.Header.Get("X-Minio-Error-Code"), a.Code)
	a.RequestID = cmp.Or(a.RequestID, resp.Header.Get("X-Amz-Request-Id"))
	f := classifyAnswer(&a)
	if resp.Request != nil {
		f.blameKey(resp.Request.Header.Get("Authorization"), r.profile)
	}
	f.blameRegion(a.StatusCode, cmp.Or(resp.Header.Get("X-Amz-Bucket-Region"), a.Region), r.region)
	var skew time.Duration
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		skew = time.Since(date)
	}
	f.blameClock(skew)
	return f
}
