package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// pipes is a listener with in-memory connections, whose deadlines follow the clock of a synctest
// bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// serveOne runs the real server in a bubble, for one client at the other end of a pipe.
func (r *rig) serveOne(t *testing.T, cfg gateway.ServerConfig, client func(conn net.Conn)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- gateway.NewServer(r.gateway, cfg).Serve(ctx, ln) }()
		conn := ln.dial()
		client(conn)
		conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// TestSlowReaders has readers that read a batch of 8 MiB at different rates, on the clock of a
// synctest bubble.
func TestSlowReaders(t *testing.T) {
	for name, c := range map[string]struct {
		piece int           // bytes per read
		pause time.Duration // pause after each read
		after time.Duration // the connection ends within this time; 0: the whole body is sent
		cause string
		short bool // other requests hold four fifths of the memory
	}{
		"stalled":                          {1, time.Hour, 31 * time.Second, "timeout", false},
		"below the floor":                  {256 << 10, 5 * time.Second, 40 * time.Second, "reader is too slow", false},
		"above the floor":                  {256 << 10, 3 * time.Second, 0, "", false},
		"above the floor, memory short":    {256 << 10, 3 * time.Second, 40 * time.Second, "reader is too slow", true},
		"within a minute, though it is so": {256 << 10, time.Second, 0, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 80, 100<<10, func(cfg *gateway.Config) {
				fastDrain(cfg)
				if !c.short {
					return
				}
				if _, ok := cfg.Budget.TryReserve(cfg.Budget.Total() / 5 * 4); !ok {
					t.Fatal("got no memory, want four fifths of it")
				}
			})
			r.serveOne(t, gateway.ServerConfig{Connections: 1}, func(conn net.Conn) {
				began := time.Now()
				fmt.Fprintf(conn, "GET /epoch/0/batch/0?batch_size=80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
				res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
				if err != nil {
					t.Fatal(err)
				}
				got, ended := readSlowly(r, res, c.piece, c.pause, began)
				if whole := got == res.ContentLength; whole != (c.after == 0) {
					t.Errorf("got %d of %d bytes, want all of them: %v", got, res.ContentLength, c.after == 0)
				}
				if c.after > 0 && ended > c.after {
					t.Errorf("got a connection that lived for %v, want %v at most", ended, c.after)
				}
				res.Body.Close()
			})
			if got := r.log.String(); !strings.Contains(got, c.cause) || strings.Contains(got, `"aborted":true`) != (c.after > 0) {
				t.Errorf("got log %s, want %q in it", got, c.cause)
			}
		})
	}
}

// TestSlowBodiesSettle: if memory is short, a body that is not sent within a second must reduce its
// memory, and so must the prefetched batch after it. The reader still gets the right bytes.
func TestSlowBodiesSettle(t *testing.T) {
	for name, c := range map[string]struct {
		path  string
		short bool // other requests hold four fifths of the memory
		moved bool
	}{
		"memory short":               {"/epoch/0/batch/0?batch_size=40", true, true},
		"memory short, many batches": {"/v1/datasets/photos/epochs/0/batches?batch_size=40&count=2", true, true},
		"memory short, in columns":   {"/epoch/0/batch/0?batch_size=40&format=arrow", true, true},
		"memory short, a range":      {"/epoch/0/batch/0?batch_size=40", true, true},
		"memory not short":           {"/epoch/0/batch/0?batch_size=40", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 80, 50<<10, func(cfg *gateway.Config) {
				fastDrain(cfg)
				if !c.short {
					return
				}
				if _, ok := cfg.Budget.TryReserve(cfg.Budget.Total() / 5 * 4); !ok {
					t.Fatal("got no memory, want four fifths of it")
				}
			})
			want := r.do("GET", c.path).body
			header, began := "", time.Duration(0)
			if name == "memory short, a range" {
				header, want = "Range: bytes=70000-1700000\r\n", want[70000:1700001]
			}
			r.serveOne(t, gateway.ServerConfig{Connections: 1}, func(conn net.Conn) {
				start := time.Now()
				fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", c.path, header)
				res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				var got bytes.Buffer
				for {
					if _, err := io.CopyN(&got, res.Body, 64<<10); err != nil {
						break
					}
					<-time.After(500 * time.Millisecond)
					if began == 0 && r.source.moved.Load() > 0 {
						began = time.Since(start)
					}
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("got %d bytes, want the %d that a fast reader gets", got.Len(), len(want))
				}
			})
			if moved := began > 0; moved != c.moved || began > 3*time.Second {
				t.Errorf("got a body that settled after %v, want one that settled soon: %v", began, c.moved)
			}
		})
	}
}

// TestDrainThatRunsOutOfTimeWaitsForHandlers: Serve returns only after all handlers have returned,
// because their resources are closed afterwards.
func TestDrainThatRunsOutOfTimeWaitsForHandlers(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	bubble.Test(t, func(t *testing.T) {
		left := false
		entered := make(chan struct{})
		r.source.before = func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			<-time.After(time.Second)
			left = true
			return ctx.Err()
		}
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- gateway.NewServer(r.gateway, gateway.ServerConfig{DrainTime: time.Second}).Serve(ctx, ln)
		}()
		conn := ln.dial()
		defer conn.Close()
		fmt.Fprintf(conn, "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-entered
		cancel()
		if err := <-served; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time was over", err)
		}
		if !left {
			t.Error("a handler is still there")
		}
	})
}

// readSlowly reads a body to its end. It returns the body's length and the time when the server
// finished with it.
func readSlowly(r *rig, res *http.Response, piece int, pause time.Duration, began time.Time) (n int64, ended time.Duration) {
	finished := make(chan time.Duration, 1)
	stop := make(chan struct{})
	go func() { // the access log line shows when the server aborts, which a stalled reader cannot see
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				finished <- time.Since(began)
				return
			case <-tick.C:
				if strings.Contains(r.log.String(), `"status"`) {
					finished <- time.Since(began)
					return
				}
			}
		}
	}()
	buf := make([]byte, piece)
	for {
		k, err := io.ReadFull(res.Body, buf)
		n += int64(k)
		if err != nil {
			break
		}
		<-time.After(pause)
	}
	close(stop)
	return n, <-finished
}

// panicWriter panics after a number of bytes of a body.
type panicWriter struct {
	http.ResponseWriter
	left int
}

func (f *panicWriter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func (f *panicWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		panic("SECRET: a bug in the middle of a body")
	}
	return f.ResponseWriter.Write(p)
}

// TestPanicAfterTheFirstByteAbortsTheConnection: a client with a part of a body must notice that
// the rest is missing.
func TestPanicAfterTheFirstByteAbortsTheConnection(t *testing.T) {
	r := newRig(t, 20, 100<<10, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.gateway.Handler().ServeHTTP(&panicWriter{w, 300 << 10}, req)
	}))
	defer srv.Close()
	c := dial(t, strings.TrimPrefix(srv.URL, "http://"))
	fmt.Fprintf(c, "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || n == 0 || n >= res.ContentLength {
		t.Errorf("got %d of %d bytes and %v, want a part and %v", n, res.ContentLength, err, io.ErrUnexpectedEOF)
	}
	srv.Close()
	if got := r.log.String(); !strings.Contains(got, `"aborted":true`) || !strings.Contains(got, `"level":"error"`) || !strings.Contains(got, "SECRET") {
		t.Errorf("got log %s, want an aborted request as an error, and its cause", got)
	}
}
