package peer

import (
	"net/http"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/port"
)

// mostAge is the maximum age of a connection. So it also limits how long a certificate works after
// it has expired, or after its authority was removed. One handshake per hour and connection costs a
// busy gateway less than 0.01 % of its time.
const mostAge = time.Hour

// renewingTransport limits the age of its connections, independently of the other side. At
// intervals new requests switch to a new transport. The old one closes each connection after the
// connection's current request, so no request fails.
type renewingTransport struct {
	age   time.Duration
	fresh func() *http.Transport

	mu    sync.Mutex // guards the fields below
	now   *http.Transport
	until time.Time // when a new transport replaces now
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

// CloseIdleConnections closes idle connections.
func (r *renewingTransport) CloseIdleConnections() { r.current().CloseIdleConnections() }
