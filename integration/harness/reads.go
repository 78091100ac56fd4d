package harness

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Reads is a proxy in front of an S3 server that records the requests. A read counts whether or not
// the client receives it.
type Reads struct {
	Env []string // environment of a child process that reaches the store through the proxy

	delay time.Duration

	mu   sync.Mutex // guards the fields below
	all  []Read
	down bool
	held string        // object whose requests are delayed
	free chan struct{} // closed when the held object is released
	asks chan struct{} // closed when a request waits for the held object; nil after that
}

// Read is one request for a part of a shard.
type Read struct {
	Who         string // address of the client, without port
	Shard       string
	First, Last int64 // bytes, inclusive
}

// Bytes returns the number of bytes requested.
func (r Read) Bytes() int64 { return r.Last - r.First + 1 }

// CountReads starts a proxy for a store that listens at backend. The proxy runs on node at, and
// delays the first byte of each shard read by delay.
func CountReads(t testing.TB, at *Node, store *Store, listen, backend string, delay time.Duration) *Reads {
	t.Helper()
	r := &Reads{delay: delay, Env: append([]string{"AWS_ENDPOINT_URL_S3=http://" + listen}, store.Env[1:]...)}
	transport := at.Transport()
	forward := forwardTo(backend, transport)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !r.take(q) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, q)
	})}
	l := at.Listen(t, listen)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-done
		transport.CloseIdleConnections()
	})
	return r
}

// forwardTo returns a proxy for an S3 server. If the server aborts a response, the proxy does too.
func forwardTo(backend string, transport http.RoundTripper) *httputil.ReverseProxy {
	target := &url.URL{Scheme: "http", Host: backend}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host // the signature covers the host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

// take records a request, and reports whether to forward it.
func (r *Reads) take(q *http.Request) bool {
	if !r.wait(q) {
		return false
	}
	if q.Method != http.MethodGet || strings.Contains(q.URL.Path, "/.millrace/") {
		return true
	}
	read := Read{Shard: q.URL.Path}
	if _, err := fmt.Sscanf(q.Header.Get("Range"), "bytes=%d-%d", &read.First, &read.Last); err != nil {
		return true // a client that packs or indexes requests a whole object
	}
	read.Who, _, _ = net.SplitHostPort(q.RemoteAddr)
	r.mu.Lock()
	r.all = append(r.all, read)
	r.mu.Unlock()
	if r.delay == 0 {
		return true
	}
	late := time.NewTimer(r.delay)
	defer late.Stop()
	select {
	case <-late.C:
	case <-q.Context().Done():
	}
	return true
}

// wait delays a request for the held object until the object is released. It reports whether to
// forward the request.
func (r *Reads) wait(q *http.Request) bool {
	r.mu.Lock()
	down, free := r.down, r.free
	held := r.held != "" && strings.HasSuffix(q.URL.Path, r.held) && q.Method == http.MethodGet
	if held && r.asks != nil {
		close(r.asks)
		r.asks = nil
	}
	r.mu.Unlock()
	if down || !held {
		return !down
	}
	select {
	case <-free:
		return true
	case <-q.Context().Done():
		return false
	}
}

// Hold delays all reads of an object until release is called. asked is closed when a request waits
// for it.
func (r *Reads) Hold(object string) (asked <-chan struct{}, release func()) {
	asks, free := make(chan struct{}), make(chan struct{})
	r.mu.Lock()
	r.held, r.asks, r.free = object, asks, free
	r.mu.Unlock()
	return asks, func() {
		r.mu.Lock()
		r.held, r.asks = "", nil
		r.mu.Unlock()
		close(free)
	}
}

// Down makes the store refuse every request while yes is true.
func (r *Reads) Down(yes bool) {
	r.mu.Lock()
	r.down = yes
	r.mu.Unlock()
}

// Forget clears the record.
func (r *Reads) Forget() {
	r.mu.Lock()
	r.all = nil
	r.mu.Unlock()
}

// All returns the reads since Forget, in order of arrival.
func (r *Reads) All() []Read {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Bytes returns the number of bytes read since Forget.
func (r *Reads) Bytes() (n int64) {
	for _, read := range r.All() {
		n += read.Bytes()
	}
	return n
}

// Again returns the number of bytes since Forget that an earlier read had already requested.
func (r *Reads) Again() (n int64) {
	all := r.All()
	slices.SortFunc(all, func(a, b Read) int {
		return cmp.Or(strings.Compare(a.Shard, b.Shard), cmp.Compare(a.First, b.First))
	})
	shard, seen := "", int64(0) // bytes of shard below seen are already counted
	for _, read := range all {
		if read.Shard != shard {
			shard, seen = read.Shard, 0
		}
		n += max(0, min(seen, read.Last+1)-read.First)
		seen = max(seen, read.Last+1)
	}
	return n
}
