package s3backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// pipes is a listener without sockets, so that it works under the fake clock of synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inBubble runs do with a backend that sends its requests to handler, under a fake clock.
func inBubble(t *testing.T, policy retryPolicy, handler http.HandlerFunc, do func(*testing.T, *Backend)) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	leaks.Check(t)
	bubble.Test(t, func(t *testing.T) {
		p := make(pipes)
		srv := &http.Server{Handler: handler}
		ended := make(chan error)
		go func() { ended <- srv.Serve(p) }()
		b, err := newBackend(Config{Bucket: "train", Endpoint: "http://store", PathStyle: true}, policy)
		if err != nil {
			t.Fatal(err)
		}
		b.transport.Proxy, b.transport.DialContext = nil, p.dial
		do(t, b)
		synctest.Wait()
		closeIdle(t, b)
		synctest.Wait() // wait until no dial is running
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		time.Sleep(time.Second) // the server keeps a closed connection for a while
	})
}

// TestNoPauseBeyondOurOwn checks that the only pauses are those of the retry policy: without them
// the fake clock does not advance, in any kind of failure.
func TestNoPauseBeyondOurOwn(t *testing.T) {
	policy := quick()
	policy.base, policy.top = 0, 0
	refuse := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
		}
	}
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"slow down":   {refuse(503, "SlowDown"), objstore.ErrThrottled},
		"too many":    {refuse(429, "x"), objstore.ErrThrottled},
		"internal":    {refuse(500, "InternalError"), objstore.ErrUnavailable},
		"bad gateway": {refuse(502, "x"), objstore.ErrUnavailable},
		"timeout":     {refuse(408, "RequestTimeout"), objstore.ErrTimeout},
		"no xml":      {nameless, objstore.ErrUnavailable},
		"connection":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, objstore.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, policy, tc.answer, func(t *testing.T, b *Backend) {
				start := time.Now()
				readErr := b.ReadRange(t.Context(), ref, 0, make([]byte, 1))
				_, statErr := b.Stat(t.Context(), testKey)
				_, putErr := b.Put(t.Context(), testKey, strings.NewReader("x"), 1, objstore.Condition{})
				_, openErr := b.Open(t.Context(), ref, 0)
				if statErr == nil { // the response to a HEAD contains no error code
					t.Error("stat: got no error")
				}
				for _, err := range []error{readErr, putErr, openErr} {
					if !errors.Is(err, tc.want) {
						t.Errorf("got %v, want %v", err, tc.want)
					}
				}
				if got := time.Since(start); got != 0 {
					t.Errorf("got pauses of %v on the fake clock, want none", got)
				}
			})
		})
	}
}

// nameless sends a response without an error document. A header contains the request ID.
func nameless(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Amz-Request-Id", "r7")
	http.Error(w, "busy", http.StatusServiceUnavailable)
}

// TestRequestIsNamed checks that the error contains the service's ID of the failed request.
func TestRequestIsNamed(t *testing.T) {
	policy := quick()
	policy.attempts = 1
	inBubble(t, policy, nameless, func(t *testing.T, b *Backend) {
		if err := b.ReadRange(t.Context(), ref, 0, make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "503, request r7") {
			t.Errorf("got %v, want the status and the request's name", err)
		}
	})
}

// TestPutWithoutETag gets no ETag in the first response. The write may have taken effect, so the
// object is looked up after the condition fails in the second attempt.
func TestPutWithoutETag(t *testing.T) {
	token, puts := "", 0
	inBubble(t, quick(), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Set("ETag", `"`+testETag+`"`)
			w.Header().Set("X-Amz-Meta-Millrace-Put", token)
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", "1")
			return
		}
		if puts++; puts > 1 {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		token = r.Header.Get("X-Amz-Meta-Millrace-Put")
	}, func(t *testing.T, b *Backend) {
		o, err := b.Put(t.Context(), testKey, strings.NewReader("x"), 1, objstore.Condition{IfAbsent: true})
		if err != nil || o.ETag != testETag || puts != 2 {
			t.Errorf("got %+v, %v after %d puts, want our own write after 2", o, err, puts)
		}
	})
}

// broken is a body that fails after 1,000 bytes.
type broken struct{ err error }

func (r broken) ReadAt(p []byte, off int64) (int, error) {
	if off >= 1000 {
		return 0, r.err
	}
	return min(len(p), 1000), nil
}

// TestBodyThatFails checks that a failing body is reported as the caller's error, in one request or
// in parts. The request is not retried.
func TestBodyThatFails(t *testing.T) {
	errDisk := errors.New("disk on fire")
	for _, size := range []int64{2000, 20 << 20} {
		for fault, want := range map[error]error{io.EOF: objstore.ErrShort, errDisk: errDisk} {
			srv := multipart{}
			inBubble(t, quick(), srv.ServeHTTP, func(t *testing.T, b *Backend) {
				_, err := b.Put(t.Context(), testKey, broken{fault}, size, objstore.Condition{})
				if !errors.Is(err, want) || b.Stats().Retries != 0 {
					t.Errorf("%d bytes: got %v after %d repetitions, want %v at once", size, err, b.Stats().Retries, want)
				}
			})
		}
	}
}

// TestClockIsBlamed checks errors if the store's clock differs from the local one, in both
// directions.
func TestClockIsBlamed(t *testing.T) {
	for _, tc := range []struct {
		store time.Duration // offset of the store's clock from the local one
		code  string
		want  string // part of the error; empty: the error does not mention the clock
	}{
		{time.Hour, "RequestTimeTooSkewed", "clock is 1h0m0s behind the store's"},
		{-time.Hour, "RequestTimeTooSkewed", "clock is 1h0m0s ahead of the store's"},
		{0, "RequestTimeTooSkewed", "clock differs too much from the store's"},
		{-time.Hour, "AccessDenied", "clock is 1h0m0s ahead of the store's"},
		{10 * time.Minute, "AccessDenied", ""},
	} {
		answer := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(tc.store).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusForbidden)
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", tc.code)
			}
		}
		inBubble(t, quick(), answer, func(t *testing.T, b *Backend) {
			readErr := b.ReadRange(t.Context(), ref, 0, make([]byte, 1))
			_, statErr := b.Stat(t.Context(), testKey)
			if statNames := strings.Contains(fmt.Sprint(statErr), "clock"); statNames != (tc.want != "" && tc.store != 0) {
				t.Errorf("%+v: stat: got %v", tc, statErr)
			}
			if !errors.Is(readErr, objstore.ErrDenied) || strings.Contains(readErr.Error(), "clock") != (tc.want != "") {
				t.Errorf("%+v: got %v", tc, readErr)
			}
			if !strings.Contains(readErr.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", readErr, tc.want)
			}
		})
	}
}
