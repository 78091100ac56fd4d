package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// onPipes runs f in a synctest bubble. The client has the production limits and dials over
// in-memory pipes.
func onPipes(t *testing.T, f func(t *testing.T, ln *pipes, client *Client)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		ln := newPipes()
		cfg := ClientConfig{Cluster: testCluster, ID: "a"}
		transport := newTransport(NewClient(cfg).cfg)
		transport.DialContext = ln.dial
		cfg.Transport = transport
		client := NewClient(cfg)
		f(t, ln, client)
		client.Close()
	})
}

// TestSlowStoresAreWaitedFor: an answer that follows 295 signs of life is accepted, with net/http
// on both sides.
func TestSlowStoresAreWaitedFor(t *testing.T) {
	onPipes(t, func(t *testing.T, ln *pipes, client *Client) {
		s := newShelf(1, 100)
		s.answer = func(ctx context.Context, _ *Query) error {
			select {
			case <-time.After(59 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		serve(t, ln, serverOf(s))
		q, dst, want := s.question(2, 10)
		start := time.Now()
		if err := client.Read(t.Context(), "b:1", q, dst); err != nil {
			t.Fatal(err)
		}
		same(t, dst, want)
		if got := time.Since(start); got != 59*time.Second {
			t.Errorf("it took %v, want 59s", got)
		}
	})
}

// TestSilentPeersAreGivenUp: each kind of silence ends a read exactly after its limit.
func TestSilentPeersAreGivenUp(t *testing.T) {
	const sign = "HTTP/1.1 102 Processing\r\n\r\n"
	say := func(text string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = io.WriteString(conn, text)
			_, _ = io.Copy(io.Discard, conn) // silent until the other side closes
		}
	}
	every := func(d time.Duration, text string) func(net.Conn) {
		return func(conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, text); err != nil {
					return
				}
				time.Sleep(d)
			}
		}
	}
	for _, c := range []struct {
		name   string
		answer func(net.Conn)
		after  time.Duration
	}{
		{"no word", say(""), 500 * time.Millisecond},
		{"a sign and no more", say(sign), 500 * time.Millisecond},
		{"half a body", say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234"), 500 * time.Millisecond},
		{"half a refusal", say("HTTP/1.1 503 Busy\r\nContent-Length: 10\r\n\r\n{"), 500 * time.Millisecond},
		{"signs for ever", every(200*time.Millisecond, sign), 60 * time.Second},
		{"a body in drops", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
			every(400*time.Millisecond, "0")(conn)
		}, 2*time.Second + 10*time.Second/floorRate},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPipes(t, func(t *testing.T, ln *pipes, client *Client) {
				answerByHand(t, ln, c.answer)
				q, dst, _ := newShelf(1, 100).question(1, 10)
				start := time.Now()
				err := client.Read(t.Context(), "b:1", q, dst)
				if !errors.Is(err, ErrDown) {
					t.Errorf("got %v, want %v", err, ErrDown)
				}
				if got := time.Since(start); got != c.after {
					t.Errorf("given up after %v, want %v", got, c.after)
				}
			})
		})
	}
}

func TestRead_ListenerDoesNotAccept(t *testing.T) {
	onPipes(t, func(t *testing.T, _ *pipes, client *Client) {
		start := time.Now()
		_, err := client.Hello(t.Context(), "b:1", Hello{Cluster: testCluster, ID: "a"})
		if !errors.Is(err, ErrDown) {
			t.Errorf("got %v, want %v", err, ErrDown)
		}
		if got := time.Since(start); got != 750*time.Millisecond {
			t.Errorf("given up after %v, want 750ms: a connection's time and the first word's", got)
		}
	})
}

// TestTheAskersDeadlineIsItsOwn: when the asker's deadline passes, the peer does not count as down,
// and stops answering.
func TestTheAskersDeadlineIsItsOwn(t *testing.T) {
	onPipes(t, func(t *testing.T, ln *pipes, client *Client) {
		s := newShelf(1, 100)
		left := make(chan time.Duration, 1)
		s.answer = func(ctx context.Context, _ *Query) error {
			end, _ := ctx.Deadline()
			left <- time.Until(end)
			<-ctx.Done()
			return ctx.Err()
		}
		serve(t, ln, serverOf(s))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		q, dst, _ := s.question(1, 10)
		if err := client.Read(ctx, "b:1", q, dst); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrDown) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if got := <-left; got != 3*time.Second+waitGrace {
			t.Errorf("the holder was given %v, want 3s and %v", got, waitGrace)
		}
	})
}

// TestServersKeepTheDeadlineToo: the server enforces the deadline even if the asker does not.
func TestServersKeepTheDeadlineToo(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newShelf(1, 100)
		s.answer = func(ctx context.Context, _ *Query) error {
			<-ctx.Done()
			return ctx.Err()
		}
		q, _, _ := s.question(1, 10)
		text, err := q.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		for given, want := range map[string]time.Duration{"700": 700 * time.Millisecond, "999999999": maxWait} {
			r := httptest.NewRequest(http.MethodPost, readPath, strings.NewReader(string(text)))
			r.Header = header()
			r.Header.Set(DeadlineHeader, given)
			w := httptest.NewRecorder()
			start := time.Now()
			NewServer(serverOf(s)).ServeHTTP(signFilter{w}, r)
			if got := time.Since(start); w.Code != http.StatusGatewayTimeout || got != want+waitGrace {
				t.Errorf("%s ms: got %d after %v, want 504 after %v", given, w.Code, got, want+waitGrace)
			}
		}
	})
}

// signFilter drops the signs of life, which httptest.ResponseRecorder would mistake for the answer.
type signFilter struct{ *httptest.ResponseRecorder }

func (s signFilter) WriteHeader(status int) {
	if status >= 200 {
		s.ResponseRecorder.WriteHeader(status)
	}
}

// TestConnectionsAtATimeAreBounded: while all permitted connections have a question, a further
// connection waits until one of them ends.
func TestConnectionsAtATimeAreBounded(t *testing.T) {
	onPipes(t, func(t *testing.T, ln *pipes, client *Client) {
		s := newShelf(1, 100)
		s.answer = func(ctx context.Context, _ *Query) error {
			<-ctx.Done()
			return ctx.Err()
		}
		cfg := serverOf(s)
		cfg.Connections = 2
		serve(t, ln, cfg)
		var held []net.Conn
		for range 2 {
			conn, err := ln.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			held = append(held, conn)
			q, _, _ := s.question(1, 10)
			text, err := q.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "http://b:1"+readPath, strings.NewReader(string(text)))
			r.RequestURI, r.Header = "", header()
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			go io.Copy(io.Discard, conn) // discards the signs of life
		}
		greet := func() error {
			_, err := client.Hello(t.Context(), "b:1", Hello{Cluster: testCluster, ID: "a"})
			return err
		}
		if err := greet(); !errors.Is(err, ErrDown) {
			t.Errorf("a third connection: got %v, want %v", err, ErrDown)
		}
		_ = held[0].Close()
		if err := greet(); err != nil {
			t.Errorf("when one has ended: %v", err)
		}
	})
}

// TestAskersThatStopReadingAreCutOff: an answer that the asker does not read releases its memory
// after a timeout.
func TestAskersThatStopReadingAreCutOff(t *testing.T) {
	onPipes(t, func(t *testing.T, ln *pipes, _ *Client) {
		s := newShelf(1, 100_000)
		serve(t, ln, serverOf(s))
		conn, err := ln.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		q, _, _ := s.question(1, 100_000)
		text, err := q.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "http://b:1"+readPath, strings.NewReader(string(text)))
		r.RequestURI, r.Header = "", header()
		start := time.Now()
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		<-s.given
		if got := time.Since(start); got != writeStall {
			t.Errorf("given back after %v, want %v", got, writeStall)
		}
		if got, _ := io.ReadAll(conn); len(got) >= 100_000 {
			t.Errorf("got %d bytes, want a part of the answer", len(got))
		}
	})
}

// inProcess calls a server as a simulation does: without a connection, and with signs of life
// delivered through the trace.
type inProcess struct{ handler http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	body, bodyEnd := io.Pipe()
	w := &inMemory{header: http.Header{}, out: bodyEnd, trace: httptrace.ContextClientTrace(r.Context()), begun: make(chan struct{})}
	go func() {
		defer func() {
			if recover() != nil {
				_ = bodyEnd.CloseWithError(io.ErrUnexpectedEOF)
			}
			_ = bodyEnd.Close()
		}()
		p.handler.ServeHTTP(w, r)
	}()
	select {
	case <-w.begun:
		return &http.Response{StatusCode: w.status, ContentLength: w.length(), Header: w.header, Body: body}, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

type inMemory struct {
	header http.Header
	out    *io.PipeWriter
	trace  *httptrace.ClientTrace
	begun  chan struct{}
	status int
}

func (w *inMemory) Header() http.Header { return w.header }

func (w *inMemory) WriteHeader(status int) {
	if status < 200 {
		_ = w.trace.Got1xxResponse(status, nil)
		return
	}
	w.status = status
	close(w.begun)
}

func (w *inMemory) Write(p []byte) (int, error) { return w.out.Write(p) }

func (w *inMemory) length() int64 {
	var n int64
	for _, digit := range w.header.Get("Content-Length") {
		n = n*10 + int64(digit-'0')
	}
	return n
}

// TestRead_StoppedAskerBlamesNoPeer: when a stopped process continues, its timers have expired and
// answers are unread. This must not count against the peer.
func TestRead_StoppedAskerBlamesNoPeer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, w := startWatchdog(t.Context(), 0, time.Second, time.Minute)
		defer w.finish()
		stopped := func(d time.Duration) {
			w.mu.Lock()
			w.due, w.last = time.Now().Add(-d), time.Now().Add(-d-time.Second)
			w.mu.Unlock()
			w.look()
		}
		stopped(5 * time.Second)
		if ctx.Err() != nil {
			t.Fatalf("after standing still: got %v, want another second", context.Cause(ctx))
		}
		time.Sleep(time.Second - time.Nanosecond)
		if ctx.Err() != nil {
			t.Fatalf("within that second: got %v, want nothing", context.Cause(ctx))
		}
		time.Sleep(time.Nanosecond)
		<-ctx.Done()
		if err := w.fault(ctx.Err()); !errors.Is(err, ErrDown) {
			t.Errorf("after it: got %v, want %v", err, ErrDown)
		}
	})
}

// TestWithoutConnections checks the contract of ClientConfig.Transport for simulations.
func TestWithoutConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := newShelf(3, 10_000)
		s.answer = func(context.Context, *Query) error {
			time.Sleep(20 * time.Second)
			return nil
		}
		server := NewServer(serverOf(s))
		client := NewClient(ClientConfig{Cluster: testCluster, ID: "a", Transport: inProcess{server}})
		q, dst, want := s.question(3, 3000)
		if err := client.Read(t.Context(), "b:1", q, dst); err != nil {
			t.Fatal(err)
		}
		same(t, dst, want)
		if theirs, err := client.Hello(t.Context(), "b:1", Hello{Cluster: testCluster, ID: "a"}); err != nil || theirs.ID != "b" {
			t.Errorf("hello: got %+v and %v, want that of b", theirs, err)
		}
		q.Chunks[0].Digest[0]++
		if err := client.Read(t.Context(), "b:1", q, dst); !errors.Is(err, ErrMismatch) {
			t.Errorf("another digest: got %v, want %v", err, ErrMismatch)
		}
	})
}
