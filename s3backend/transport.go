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
	end    context.CancelCauseFunc // ends the attempt
	status int
	length int64         // of the body, -1 when it is not announced
	skew   time.Duration // this machine's clock less the store's, 0 where it did not say
}

type seenKey struct{}

// recorder notes in the request's context what was answered. An attempt that failed in a way
// that another might not, it ends: minio-go would pause for up to 200 ms after it, before it
// finds that it may make no other.
type recorder struct{ next http.RoundTripper }

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(req)
	s, ok := req.Context().Value(seenKey{}).(*seen)
	switch {
	case !ok:
	case err != nil:
		s.end(classifyNetwork(err))
	default:
		s.status, s.length = resp.StatusCode, resp.ContentLength
		if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			s.skew = time.Since(date)
		}
		if pausesAfter(resp.StatusCode) {
			f := refusal(resp)
			s.end(f)
			return nil, f
		}
	}
	return resp, err
}

// pausesAfter reports whether minio-go would make another attempt after this status.
func pausesAfter(status int) bool {
	const clientClosed = 499 // nginx's
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status == clientClosed || status >= 500
}

// maxRefusal bounds what is read of an error's body.
const maxRefusal = 64 << 10

// refusal reads an answer that is an error, as minio-go would.
func refusal(resp *http.Response) *failure {
	defer resp.Body.Close()
	a := minio.ErrorResponse{}
	if xml.NewDecoder(io.LimitReader(resp.Body, maxRefusal)).Decode(&a) != nil || a.Code == "" {
		a = minio.ErrorResponse{Code: http.StatusText(resp.StatusCode)}
	}
	a.StatusCode = resp.StatusCode
	a.Code = cmp.Or(resp.Header.Get("X-Minio-Error-Code"), a.Code)
	a.RequestID = cmp.Or(a.RequestID, resp.Header.Get("X-Amz-Request-Id"))
	return classifyAnswer(&a)
}
