package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// secret returns the TLS settings of a server, and of a client that trusts it.
func secret(t testing.TB) (served, client *tls.Config) {
	t.Helper()
	ca := certtest.New(t)
	port, err := certs.NewPort(ca.Issue(t, t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	return port.Server(), &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
}

// ask sends a request and returns the status and body of its response.
func ask(t *testing.T, conn net.Conn, path string) (status int, body []byte) {
	t.Helper()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return res.StatusCode, body
}

// TestBatchesOverTLSAreTheSame compares batches of small and large samples over TLS with those over
// plain HTTP.
func TestBatchesOverTLSAreTheSame(t *testing.T) {
	for _, size := range []int{60, 4 << 10, 110 << 10} {
		r := newRig(t, 64, size, fastDrain)
		served, client := secret(t)
		plain, _ := r.serve(gateway.ServerConfig{})
		encrypted, _ := r.serve(gateway.ServerConfig{TLS: served})
		conn := tls.Client(dial(t, encrypted), client)
		for _, path := range []string{"/epoch/0/batch/0?batch_size=64", "/epoch/0/batch/3", "/v1/datasets/photos/epochs/0/batches?from=0&count=2&format=framed"} {
			_, want := ask(t, dial(t, plain), path)
			if status, got := ask(t, conn, path); status != http.StatusOK || !bytes.Equal(got, want) {
				t.Errorf("samples of %d bytes, %s: got status %d and %d bytes, want the %d bytes of plain HTTP", size, path, status, len(got), len(want))
			}
		}
	}
}

// TestDrainOverTLS: while the gateway drains, a request in flight finishes, and an idle connection
// is closed.
func TestDrainOverTLS(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	served, client := secret(t)
	addr, stop := r.serve(gateway.ServerConfig{TLS: served})
	idle, busy := tls.Client(dial(t, addr), client), tls.Client(dial(t, addr), client)
	ask(t, idle, "/healthz")
	entered, leave := make(chan struct{}), make(chan struct{})
	r.source.before = func(context.Context) error {
		close(entered)
		<-leave
		return nil
	}
	fmt.Fprint(busy, "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if n, err := idle.Read(make([]byte, 1)); err == nil {
		t.Errorf("an idle connection: got %d bytes, want its end", n)
	}
	close(leave)
	res, err := http.ReadResponse(bufio.NewReader(busy), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if n, err := io.Copy(io.Discard, res.Body); err != nil || n != res.ContentLength {
		t.Errorf("got %d bytes and %v while draining, want all %d", n, err, res.ContentLength)
	}
	if err := <-stopped; err != nil {
		t.Errorf("got %v from the drain, want nil", err)
	}
}

// TestDeafClientsKeepNoConnection: TLS closes a connection with an alert, which takes five seconds
// if the client does not read. No other client waits for that, neither when idle connections are
// closed for new ones nor when the gateway drains.
func TestDeafClientsKeepNoConnection(t *testing.T) {
	served, client := secret(t)
	client.InsecureSkipVerify = true // the bubble's clock is years before the certificate's time
	const lameDuck = 10 * time.Second
	r := newRig(t, 20, 800, func(cfg *gateway.Config) { cfg.LameDuck = lameDuck })
	bubble.Test(t, func(t *testing.T) {
		ln := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- gateway.NewServer(r.gateway, gateway.ServerConfig{Connections: 3, TLS: served}).Serve(ctx, ln)
		}()
		began := time.Now()
		quickly := func(step string) {
			t.Helper()
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: got an answer after %v, want it at once", step, took)
			}
			began = time.Now()
		}
		// A pipe has no buffer: unread bytes of a client block the server.
		for i := range 9 {
			conn := tls.Client(ln.dial(), client)
			defer conn.NetConn().Close()
			ask(t, conn, "/healthz")
			synctest.Wait()
			quickly(fmt.Sprintf("connection %d of 3", i))
		}
		cancel()
		synctest.Wait()
		conn := tls.Client(ln.dial(), client)
		ask(t, conn, "/healthz")
		quickly("while draining")
		conn.NetConn().Close()
		if err := <-ended; err != nil || time.Since(began) > lameDuck+time.Second {
			t.Errorf("drain: got %v after %v, want no error after %v", err, time.Since(began), lameDuck)
		}
	})
}

// TestHandshakesHaveTheTimeOfAHeader: a client that sends nothing, or too little, loses its
// connection.
func TestHandshakesHaveTheTimeOfAHeader(t *testing.T) {
	served, client := secret(t)
	client.InsecureSkipVerify = true // the bubble's clock is years before the certificate's time
	for name, speak := range map[string]func(conn net.Conn, end chan struct{}){
		"says nothing": func(net.Conn, chan struct{}) {},
		"says hello, a byte a second": func(conn net.Conn, _ chan struct{}) {
			hello := []byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 0, 0, 0, 0}
			for i := range hello {
				if _, err := conn.Write(hello[i : i+1]); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		},
		"says hello, and hears no answer": func(conn net.Conn, end chan struct{}) {
			_ = tls.Client(stalledConn{conn, end}, client).HandshakeContext(context.Background())
		},
		"asks nothing": func(conn net.Conn, _ chan struct{}) {
			_ = tls.Client(conn, client).HandshakeContext(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 20, 800, fastDrain)
			bubble.Test(t, func(t *testing.T) {
				ln := newPipes()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- gateway.NewServer(r.gateway, gateway.ServerConfig{Connections: 1, TLS: served}).Serve(ctx, ln)
				}()
				mute := ln.dial()
				began := time.Now()
				end := make(chan struct{})
				var speaking sync.WaitGroup
				speaking.Go(func() { speak(mute, end) })
				conn := tls.Client(ln.dial(), client) // waits until the first connection is closed
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("got the place after %v, want it after 5 s, and as many for a last word", took)
				}
				ask(t, conn, "/healthz")
				close(end)
				mute.Close()
				speaking.Wait()
				conn.NetConn().Close()
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// stalledConn is a connection whose client writes but never reads.
type stalledConn struct {
	net.Conn
	end chan struct{}
}

func (d stalledConn) Read([]byte) (int, error) {
	<-d.end
	return 0, io.EOF
}

// TestStalledReadersOverTLS: stalled readers over TLS are disconnected like those over plain HTTP,
// and the memory of their bodies is released.
func TestStalledReadersOverTLS(t *testing.T) {
	served, client := secret(t)
	client.InsecureSkipVerify = true // the bubble's clock is years before the certificate's time
	r := newRig(t, 80, 100<<10, fastDrain)
	r.serveOne(t, gateway.ServerConfig{Connections: 1, TLS: served}, func(raw net.Conn) {
		conn := tls.Client(raw, client)
		fmt.Fprint(conn, "GET /epoch/0/batch/0?batch_size=80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if r.source.open.Load() == 0 {
			t.Error("no body is open while its reader stalls")
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := r.source.open.Load(); n != 0 {
			t.Errorf("after 31 s without a byte: got %d bodies open, want none", n)
		}
	})
	if got := r.log.String(); !strings.Contains(got, `"aborted":true`) || !strings.Contains(got, "timeout") {
		t.Errorf("got log %s, want the request aborted by its timeout", got)
	}
}

// TestStrangersDoNotFillTheLog: requests without TLS get an error that names HTTPS, and the log has
// a single line for all of them.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	served, _ := secret(t)
	addr, stop := r.serve(gateway.ServerConfig{TLS: served})
	for range 50 {
		status, body := ask(t, dial(t, addr), "/healthz")
		if status != http.StatusBadRequest || !strings.Contains(string(body), "HTTPS") {
			t.Fatalf("got status %d, %q, want 400 and a word of HTTPS", status, body)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if got := r.log.String(); strings.Count(got, "TLS handshake error") != 1 {
		t.Errorf("got log %s, want one line", got)
	}
}
