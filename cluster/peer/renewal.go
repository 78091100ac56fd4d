package peer

import (
	"net/http"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/port"
)

// mostAge is how old a connection becomes: a certificate that has expired, or whose authority was taken away, works for so
// long at most. A handshake an hour for each connection costs a busy gateway less than 0.01 % of its time.
const mostAge = time.Hour

// renewingTransport bounds the age of its connections, whatever the other end does. From time to
// time new requests move to a new transport, and the old one closes each connection once its
// request is answered: no request fails.
type renewingTransport struct {
	age   time.Duration
	fresh func() *http.Transport

	mu    sync.Mutex // guards the fields below
	now   *http.Transport
	until time.Time // now is in use
}

func (r *renewingTransport) current() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil && time.Now().After(r.until) {
		r.now.CloseIdleConnections()
		r.now = nil
	}
	if r.now == nil {
		r.now, r.until = r.fresh(), port.EndOf(r.age)
	}
	return r.now
}

// RoundTrip implements http.RoundTripper.
func (r *renewingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return r.current().RoundTrip(req)
}

// CloseIdleConnections closes the connections that nobody uses.
func (r *renewingTransport) CloseIdleConnections() { r.current().CloseIdleConnections() }
