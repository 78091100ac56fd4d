package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
)

// TestRequestsNotSentInTimeAreClosed has clients that stop, or send slowly, in the middle of their
// headers.
func TestRequestsNotSentInTimeAreClosed(t *testing.T) {
	for name, c := range map[string]struct {
		first string
		drip  string // sent once per second
		after time.Duration
		want  string // start of the response
	}{
		"nothing at all":      {"", "", 5 * time.Second, ""},
		"half a request line": {"GET /heal", "", 5 * time.Second, "HTTP/1.1 400 "},
		"half a header":       {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "", 5 * time.Second, ""},
		"a byte a second":     {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "a", 5 * time.Second, ""},
		"a body that drips":   {"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n", "a", 11 * time.Second, "HTTP/1.1 405 "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20, 800, fastDrain)
			r.serveOne(t, gateway.ServerConfig{}, func(conn net.Conn) {
				began := time.Now()
				var sender sync.WaitGroup
				sender.Go(func() {
					_, err := io.WriteString(conn, c.first)
					for err == nil && c.drip != "" {
						<-time.After(time.Second)
						_, err = io.WriteString(conn, c.drip)
					}
				})
				got, _ := io.ReadAll(conn)
				if took := time.Since(began); took > c.after || !strings.HasPrefix(string(got), c.want) || (c.want == "") != (len(got) == 0) {
					t.Errorf("got %.60q and an end after %v, want %q within %v", got, took, c.want, c.after)
				}
				conn.Close()
				sender.Wait()
			})
		})
	}
}

// TestReadersThatLeaveAnywhere closes connections at every stage of a response. The stack then
// checks that all memory except that of plans is released, and TestMain that no goroutine is left.
func TestReadersThatLeaveAnywhere(t *testing.T) {
	s := newStack(t, 256, 16<<10, 512<<10, 16<<20)
	const path = "/epoch/0/batch/0?batch_size=128"
	whole := s.get(t, path)
	var all sync.WaitGroup
	for _, part := range []int64{0, 1, 100, 4 << 10, 64 << 10, 1 << 20, int64(len(whole.body)) - 1} {
		for epoch := range 4 {
			all.Go(func() {
				c := dial(t, s.addr)
				defer c.Close()
				fmt.Fprintf(c, "GET /epoch/%d/batch/1?batch_size=128 HTTP/1.1\r\nHost: localhost\r\n\r\n", epoch)
				_, _ = io.CopyN(io.Discard, c, part) // a 503 response is shorter
			})
		}
	}
	all.Wait()
	for {
		if again := s.get(t, path); again.StatusCode == http.StatusOK {
			if string(again.body) != string(whole.body) {
				t.Error("got other bytes after others had left, want the same")
			}
			return
		}
	}
}

// TestBurst opens far more concurrent connections than the server accepts. The server sends each
// client its batch or an error to retry, and afterwards works as before. On a busy machine the
// server may read a head so late that it closes the connection as idle: then the client connects
// again.
func TestBurst(t *testing.T) {
	s := newStack(t, 256, 4<<10, 256<<10, 8<<20)
	burst := 150 // 64 are served concurrently; the others fit into the shortest queue that a kernel has
	want := s.get(t, "/epoch/0/batch/0?batch_size=32").body
	http.DefaultClient.CloseIdleConnections()
	statuses := make([]int, burst)
	var all sync.WaitGroup
	for i := range burst {
		all.Go(func() {
			ask := func() (*http.Response, error) {
				c := dial(t, s.addr)
				fmt.Fprintf(c, "GET /epoch/%d/batch/1?batch_size=32 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", i%3)
				return http.ReadResponse(bufio.NewReader(c), nil)
			}
			res, err := ask()
			for errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) {
				res, err = ask()
			}
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			defer res.Body.Close()
			n, err := io.Copy(io.Discard, res.Body)
			if err != nil || n != res.ContentLength {
				t.Errorf("connection %d: got %d of %d bytes and %v", i, n, res.ContentLength, err)
			}
			statuses[i] = res.StatusCode
		})
	}
	all.Wait()
	for i, status := range statuses {
		if status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Errorf("connection %d: got status %d, want 200 or 503", i, status)
		}
	}
	if a := s.get(t, "/epoch/0/batch/0?batch_size=32"); a.StatusCode != http.StatusOK || string(a.body) != string(want) {
		t.Errorf("got status %d after the burst, want 200 and the same bytes", a.StatusCode)
	}
}
