package s3backend

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// staticTransport is a RoundTripper that always returns the same response.
type staticTransport struct {
	resp *http.Response
	err  error
}

func (a staticTransport) RoundTrip(*http.Request) (*http.Response, error) { return a.resp, a.err }

// closeRecorder is a body that records whether it was closed.
type closeRecorder struct {
	io.Reader
	closed bool
}

func (e *closeRecorder) Close() error { e.closed = true; return nil }

// TestRefusing_MakesRefusalsErrors checks that a response with a status from 300 on becomes an
// error with its content, and that its body is closed. Other responses are returned unchanged.
func TestRefusing_MakesRefusalsErrors(t *testing.T) {
	type headers map[string]string
	for _, c := range []struct {
		status int
		header headers
		body   string
		kind   error
		text   string
		region string
	}{
		{200, nil, "<Error><Code>SlowDown</Code></Error>", nil, "", ""},
		{206, nil, "", nil, "", ""}, {299, nil, "", nil, "", ""},
		{300, nil, "", objstore.ErrDenied, "denied: the store sent a redirect, which is not followed: check endpoint and region: Multiple Choices (status 300)", ""},
		{304, nil, "", objstore.ErrChanged, "changed: Not Modified (status 304)", ""},
		{403, nil, "", objstore.ErrDenied, "denied: AccessDenied (status 403)", ""},
		{404, nil, "<html>", objstore.ErrNotFound, "not found: NoSuchKey (status 404)", ""},
		{404, nil, "<Error><Code></Code><RequestId>r</RequestId></Error>", objstore.ErrNotFound, "not found: NoSuchKey (status 404)", ""},
		{404, nil, "<Error><Code>NoSuchBucket</Code><RequestId>r1</RequestId></Error>", objstore.ErrNotFound, "not found: NoSuchBucket (status 404, request r1)", ""},
		{503, headers{"X-Amz-Request-Id": "r2"}, "", objstore.ErrUnavailable, "unavailable: Service Unavailable (status 503, request r2)", ""},
		{503, headers{"X-Amz-Request-Id": "r2"}, "<Error><Code>SlowDown</Code><RequestId>r1</RequestId></Error>", objstore.ErrThrottled, "throttled: SlowDown (status 503, request r1)", ""},
		{404, headers{"X-Minio-Error-Code": "NoSuchBucket"}, "", objstore.ErrNotFound, "not found: NoSuchBucket (status 404)", ""},
		{404, headers{"X-Minio-Error-Code": "A"}, "<Error><Code>B</Code></Error>", objstore.ErrNotFound, "not found: A (status 404)", ""},
		{500, nil, "<Error>" + strings.Repeat(" ", maxRefusal) + "<Code>SlowDown</Code></Error>", objstore.ErrUnavailable, "unavailable: Internal Server Error (status 500)", ""},
		{500, nil, "<Error>" + strings.Repeat(" ", maxRefusal-50) + "<Code>SlowDown</Code></Error>", objstore.ErrThrottled, "throttled: SlowDown (status 500)", ""},
		{400, headers{"X-Amz-Bucket-Region": "eu"}, "<Error><Code>X</Code><Region>cn</Region></Error>", objstore.ErrDenied, ": X (status 400)", "eu"},
		{400, nil, "<Error><Code>X</Code><Region>cn</Region></Error>", objstore.ErrDenied, ": X (status 400)", "cn"},
		{400, nil, "<Error><Code>X</Code><Region>us</Region></Error>", objstore.ErrDenied, "denied: X (status 400)", ""},
		{403, headers{"Date": "Mon, 02 Jan 2006 15:04:05 GMT"}, "", objstore.ErrDenied, "ahead of the store's: set the clock with NTP: AccessDenied (status 403)", ""},
		{403, headers{"Date": "yesterday"}, "", objstore.ErrDenied, "denied: AccessDenied (status 403)", ""},
	} {
		body := &closeRecorder{Reader: strings.NewReader(c.body)}
		given := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: body}
		for name, value := range c.header {
			given.Header.Set(name, value)
		}
		resp, err := errorTransport{staticTransport{resp: given}, "us", ""}.RoundTrip(nil)
		if c.kind == nil {
			if resp != given || err != nil || body.closed {
				t.Errorf("status %d: got %v, %v, closed: %t, want the answer", c.status, resp, err, body.closed)
			}
			continue
		}
		wantError(t, c.text, err, c.kind, c.text)
		if f, ok := errors.AsType[*failure](err); !ok || f.region != c.region || resp != nil || !body.closed {
			t.Errorf("status %d %.80s: got %+v in region %q, closed: %t, want %q", c.status, c.body, resp, f.region, body.closed, c.region)
		}
	}
	_, err := errorTransport{staticTransport{err: io.EOF}, "us", ""}.RoundTrip(nil)
	wantError(t, "no answer", err, objstore.ErrUnavailable, "the connection was closed")
}

// TestTransport_KeepsItsConnections checks that connections are reused, as many as there are
// concurrent requests, and that no compression is requested.
func TestTransport_KeepsItsConnections(t *testing.T) {
	const readers = 8
	var together sync.WaitGroup
	data := sample(30)
	s := serve(t, func(c net.Conn, r request) bool {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("%s asks for the encoding %q", r.Header.Get("Range"), got)
		}
		together.Done()
		together.Wait() // so that no connection becomes free for another request
		return sound(c, r, data)
	})
	b := backend(t, s, quick())
	for range 3 {
		together.Add(readers)
		var all sync.WaitGroup
		for i := range readers {
			all.Go(func() {
				if got := readOne(t, b, i%2 == 0, len(data)); string(got) != string(data) {
					t.Errorf("got %q", got)
				}
			})
		}
		all.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) != readers {
		t.Errorf("got %d connections for %d readers at once", len(s.conns), readers)
	}
}

// TestTransport_GivesUpHandshakes connects to a server that accepts connections and sends nothing.
func TestTransport_GivesUpHandshakes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	policy := quick()
	policy.tls, policy.attempts = 10*time.Millisecond, 1
	b := opened(t, Config{Bucket: "train", Endpoint: "https://" + ln.Addr().String(), PathStyle: true}, policy)
	_, err = b.Stat(t.Context(), testKey)
	wantError(t, "stat", err, objstore.ErrTimeout, "timeout: the network timed out, at the endpoint "+b.cfg.Endpoint+" (AWS_ENDPOINT_URL, or endpoint= of the address)")
}
