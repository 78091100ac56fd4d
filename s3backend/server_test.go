package s3backend

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

const (
	testETag = "0123456789abcdef0123456789abcdef"
	testKey  = "a/shard.tar"
)

// server speaks raw HTTP on real sockets. Its answer function writes any bytes, and returns whether
// to keep the connection.
type server struct {
	url    string
	mu     sync.Mutex
	n      int
	ranges []string
	match  []string
	conns  map[net.Conn]bool
}

type request struct {
	*http.Request
	n int // number of earlier requests
}

func serve(t *testing.T, answer func(w net.Conn, r request) (more bool)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: "http://" + ln.Addr().String(), conns: map[net.Conn]bool{}}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			wg.Go(func() { s.talk(c, answer) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		for c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

func (s *server) talk(c net.Conn, answer func(net.Conn, request) bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		s.mu.Lock()
		n := s.n
		s.n++
		s.ranges = append(s.ranges, r.Header.Get("Range"))
		s.match = append(s.match, r.Header.Get("If-Match"))
		s.mu.Unlock()
		if !answer(c, request{r, n}) {
			return
		}
	}
}

// reset closes a connection so that the peer sees a reset instead of a normal end.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0) // if this fails, the connection ends normally
	c.Close()
}

// head writes a response header: the rest of the status line, and the header fields.
func head(c net.Conn, status string, lines ...string) {
	fmt.Fprintf(c, "HTTP/1.1 %s\r\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT\r\n%s\r\n\r\n", status, strings.Join(lines, "\r\n"))
}

func etag(s string) string { return `ETag: "` + s + `"` }

func contentRange(from, to, total int) string {
	return fmt.Sprintf("Content-Range: bytes %d-%d/%d", from, to, total)
}

// rangeOf parses the Range header of a request for an object of size bytes.
func rangeOf(r request, size int) (from, to int) {
	to = size - 1
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to); err != nil {
		to = size - 1
	}
	return from, to
}

// sound responds as a correct server does.
func sound(c net.Conn, r request, data []byte) bool {
	from, to := rangeOf(r, len(data))
	lines := []string{etag(testETag), fmt.Sprintf("Content-Length: %d", to-from+1)}
	status := "200 OK"
	if r.Header.Get("Range") != "" {
		status = "206 Partial Content"
		lines = append(lines, contentRange(from, to, len(data)))
	}
	head(c, status, lines...)
	if r.Method != http.MethodHead {
		c.Write(data[from : to+1])
	}
	return true
}

func refuse(c net.Conn, status, code string) bool {
	body := "<Error><Code>" + code + "</Code><Message>m</Message><RequestId>r1</RequestId></Error>"
	head(c, status, "Content-Type: application/xml", fmt.Sprintf("Content-Length: %d", len(body)))
	fmt.Fprint(c, body)
	return true
}

// quick returns a policy with short pauses, so that tests do not wait, and long timeouts, so that
// no attempt ends because the machine is slow.
func quick() retryPolicy {
	l := defaultRetryPolicy()
	l.base, l.top = time.Microsecond, time.Millisecond
	l.dial, l.tls, l.header, l.stall = time.Minute, time.Minute, time.Minute, time.Minute
	l.progress = 1 << 30
	return l
}

func backend(t *testing.T, s *server, policy retryPolicy) *Backend {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDCANARY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "canary-secret-key")
	return opened(t, Config{Bucket: "train", Endpoint: s.url, PathStyle: true}, policy)
}

// opened returns a backend, and closes it at the end of the test. At that time it must be idle, and
// must have left no goroutines or descriptors.
func opened(t *testing.T, cfg Config, policy retryPolicy) *Backend {
	t.Helper()
	leaks.Check(t)
	b, err := newBackend(cfg, policy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIdle(t, b) })
	return b
}

// closeIdle closes a backend after its last request. All places of the limiter must be free, and no
// probe may be running.
func closeIdle(t *testing.T, b *Backend) {
	t.Helper()
	if !idle(b.concurrency) {
		t.Error("places of the limiter are still taken")
	}
	if b.breaker.probing {
		t.Error("a probe is still under way")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
