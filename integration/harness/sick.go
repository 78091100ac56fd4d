package harness

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// Late starts a proxy in front of a gateway's peer port, which delays all data to the gateway.
func Late(t testing.TB, at *Node, listen, gateway string, by time.Duration) {
	t.Helper()
	ln := at.Listen(t, listen)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { late(at, conn, gateway, by) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		running.Wait()
	})
}

// late forwards one connection, and closes it when either side does.
func late(at *Node, asker net.Conn, gateway string, by time.Duration) {
	defer asker.Close()
	var there net.Conn
	if at.Do(func() (err error) {
		there, err = net.DialTimeout("tcp", gateway, time.Second)
		return err
	}) != nil {
		return
	}
	defer there.Close()
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1<<12)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(there, asker)
		there.Close()
	})
	both.Go(func() {
		defer close(pieces)
		for {
			b := make([]byte, 32<<10)
			n, err := there.Read(b)
			if n > 0 {
				pieces <- piece{b[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	})
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := asker.Write(p.bytes); err != nil {
			there.Close()
		}
	}
	asker.Close()
	both.Wait()
}

// Overloaded starts a proxy in front of a gateway's peer port, which responds to every chunk
// request with 503 and forwards other requests.
func Overloaded(t testing.TB, at *Node, authority *certtest.Authority, name, listen, gateway string) {
	t.Helper()
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	own := Certify(t, authority, name, host)
	pair, err := tls.LoadX509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatal(err)
	}
	transport := at.Transport()
	transport.TLSClientConfig = &tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true}
	target := &url.URL{Scheme: "https", Host: gateway}
	forward := &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/peer/v1/read" {
			forward.ServeHTTP(w, q)
			return
		}
		_, _ = io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"overloaded","detail":"a test says so"}`)
	})}
	ln := tls.NewListener(at.Listen(t, listen), &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
}
