package port

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/millrace-data/millrace/internal/certs"
	"github.com/millrace-data/millrace/internal/socket"
	"github.com/millrace-data/millrace/internal/testing/bubble"
	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// pipes is an in-memory listener. The test chooses the addresses of its clients.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn, 1<<16), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.ended)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// from is a connection with the address of its client.
type from struct {
	net.Conn
	address net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.address }

// dial connects from an address to the listener, and closes the connection after the test.
func (p *pipes) dial(t *testing.T, address string) net.Conn {
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close() })
	p.conns <- from{far, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}
	return near
}

// get sends a request and returns the response's status, or 0 without a response.
func get(c net.Conn, path string) int {
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// closed reports whether the server has closed a connection, which must have no bytes to read.
func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer c.SetReadDeadline(time.Time{})
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

// serving is a function that serves a port until ctx ends.
type serving func(ctx context.Context, h http.Handler, ln net.Listener, secret *tls.Config) error

func admin(ctx context.Context, h http.Handler, ln net.Listener, secret *tls.Config) error {
	return ServeAdmin(ctx, h, nil, zerolog.Nop(), ln, secret)
}

// data serves a data port with the limit on connections that belongs to some 6,000 open files.
func data(ctx context.Context, h http.Handler, ln net.Listener, secret *tls.Config) error {
	return New(Config{Handler: h, Service: unused{}, Log: zerolog.Nop(), Connections: 2900, TLS: secret}).Serve(ctx, ln)
}

type unused struct{}

func (unused) Drain()        {}
func (unused) Active() int64 { return 0 }

// serveAdmin runs a test against an admin port.
func serveAdmin(t *testing.T, secret *tls.Config, test func(t *testing.T, ln *pipes, leave chan struct{})) {
	serve(t, admin, secret, test)
}

// serve runs a test against a port, in a bubble. The handler of /busy waits until the test closes
// leave.
func serve(t *testing.T, port serving, secret *tls.Config, test func(t *testing.T, ln *pipes, leave chan struct{})) {
	bubble.Test(t, func(t *testing.T) {
		ln, leave, served := newPipes(), make(chan struct{}), make(chan error, 1)
		h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/busy" {
				<-leave
			}
		})
		ctx, end := context.WithCancel(t.Context())
		go func() { served <- port(ctx, h, ln, secret) }()
		test(t, ln, leave)
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

const stranger, trainer = "192.0.2.1", "198.51.100.7"

// TestServer_ClosesSilentConnections: clients keep opening connections and never send a whole
// request, some from the address of the probes. They do not delay any probe by a second.
func TestServer_ClosesSilentConnections(t *testing.T) {
	files, err := certs.NewPort(certtest.New(t).Issue(t, t.TempDir(), nil))
	if err != nil {
		t.Fatal(err)
	}
	served := files.Server()
	for name, c := range map[string]struct {
		secret *tls.Config
		sends  string
	}{
		"send nothing":           {},
		"send half a head":       {sends: "GET /healthz HTTP/1.1\r\nHost: "},
		"send no TLS handshake":  {secret: served},
		"send half a TLS record": {secret: served, sends: "\x16\x03\x01"},
	} {
		for port, flood := range map[string]struct {
			serving
			perSecond, seconds int
		}{"admin": {admin, 40, 60}, "data": {data, 800, 15}} {
			t.Run(port+", "+name, func(t *testing.T) {
				serve(t, flood.serving, c.secret, func(t *testing.T, ln *pipes, _ chan struct{}) {
					answered := 0
					for i := range flood.seconds * flood.perSecond {
						silent := ln.dial(t, stranger)
						go io.WriteString(silent, c.sends)
						time.Sleep(time.Second / time.Duration(flood.perSecond))
						if i%flood.perSecond == 0 && probed(t, ln, c.secret) {
							answered++
						}
					}
					if answered != flood.seconds {
						t.Errorf("got %d of %d probes answered within a second, want all", answered, flood.seconds)
					}
				})
			})
		}
	}
}

// probed reports whether a probe from the address of the silent clients is answered within a
// second.
func probed(t *testing.T, ln *pipes, secret *tls.Config) bool {
	probe := ln.dial(t, stranger)
	_ = probe.SetDeadline(time.Now().Add(time.Second))
	if secret != nil {
		probe = tls.Client(probe, &tls.Config{InsecureSkipVerify: true})
	}
	defer probe.Close()
	return get(probe, "/healthz") == http.StatusOK
}

// TestServer_ClosesSilentConnectionsBeforeKeptOnes: a flood of connections ends neither a request
// in progress nor a connection that is kept between requests.
func TestServer_ClosesSilentConnectionsBeforeKeptOnes(t *testing.T) {
	serveAdmin(t, nil, func(t *testing.T, ln *pipes, leave chan struct{}) {
		kept, busy, status := ln.dial(t, stranger), ln.dial(t, stranger), make(chan int)
		if got := get(kept, "/"); got != http.StatusOK {
			t.Fatalf("got status %d, want 200", got)
		}
		go func() { status <- get(busy, "/busy") }()
		for range 10 * adminConnections {
			ln.dial(t, stranger)
			time.Sleep(2 * silentTime / adminConnections) // so half of the connections have exceeded silentTime
		}
		close(leave)
		if got := <-status; got != http.StatusOK {
			t.Errorf("request in progress: got status %d, want 200", got)
		}
		if got := get(kept, "/"); got != http.StatusOK {
			t.Errorf("kept connection: got status %d, want 200", got)
		}
	})
}

// TestServer_ServesBurstOfSlowClients: in a burst of more clients than the limit, all are served.
func TestServer_ServesBurstOfSlowClients(t *testing.T) {
	serveAdmin(t, nil, func(t *testing.T, ln *pipes, _ chan struct{}) {
		answers := make(chan int)
		const clients = 3 * adminConnections
		for range clients {
			c := ln.dial(t, trainer)
			go func() {
				time.Sleep(silentTime / 4) // the duration of a slow handshake
				answers <- get(c, "/")
			}()
		}
		for range clients {
			if got := <-answers; got != http.StatusOK {
				t.Errorf("got status %d, want 200", got)
			}
		}
	})
}

// TestServer_ClosesConnectionsOfLargestAddress: an address that has filled a port loses its own
// connections to new ones, oldest first. Other addresses lose none.
func TestServer_ClosesConnectionsOfLargestAddress(t *testing.T) {
	for name, strangers := range map[string][]string{
		"one address":          {stranger},
		"a network of IPv6":    {"2001:db8::1", "2001:db8::2", "2001:db8::ffff:1", "2001:db8::ffff:2"},
		"an address both ways": {stranger, "::ffff:" + stranger},
	} {
		t.Run(name, func(t *testing.T) {
			serveAdmin(t, nil, func(t *testing.T, ln *pipes, _ chan struct{}) {
				ask := func(address string) net.Conn {
					c := ln.dial(t, address)
					if got := get(c, "/"); got != http.StatusOK {
						t.Fatalf("got status %d, want 200", got)
					}
					synctest.Wait()
					return c
				}
				var own, theirs []net.Conn
				for range adminConnections / 3 {
					own = append(own, ask(trainer))
				}
				for i := range 2 * adminConnections {
					theirs = append(theirs, ask(strangers[i%len(strangers)]))
				}
				for i, c := range own {
					if closed(c) {
						t.Fatalf("connection %d of the other address is closed, want it kept", i)
					}
				}
				most := adminConnections - len(own)
				for i, c := range theirs {
					if closed(c) != (i < len(theirs)-most) {
						t.Fatalf("connection %d of %d: closed is %v, want the oldest closed", i, len(theirs), closed(c))
					}
				}
			})
		})
	}
}

// TestIdle_KeepsConnectionsWhoseBytesAreUnread: a server that is short of processor time reads
// requests late. It closes only connections without unread bytes.
func TestIdle_KeepsConnectionsWhoseBytesAreUnread(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := socket.Limit(10, ln)
	defer limited[0].Close()
	open := func() (near, far net.Conn) {
		near, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { near.Close() })
		far, err = limited[0].Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { far.Close() })
		return near, far
	}
	for _, state := range []http.ConnState{http.StateNew, http.StateIdle} {
		for name, sends := range map[string]string{"nothing": "", "a request": "GET / HTTP/1.1\r\n\r\n", "a request of which a byte was read": "GET / HTTP/1.1\r\n\r\n"} {
			t.Run(fmt.Sprintf("%v, %s", state, name), func(t *testing.T) {
				i := shedIdle(&http.Server{}, limited)
				near, far := open()
				if _, err := io.WriteString(near, sends); err != nil {
					t.Fatal(err)
				}
				for sends != "" && socket.Quiet(far, 0) {
					time.Sleep(time.Millisecond)
				}
				if strings.HasPrefix(name, "a request of") {
					if _, err := far.Read(make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				i.changed(far, state)
				i.age(far)
				i.shed()
				i.changed(far, http.StateActive)
				_, err := far.Write([]byte("answer"))
				if kept := err == nil; kept != (sends != "") {
					t.Errorf("got the connection kept: %v, want %v", kept, sends != "")
				}
			})
		}
	}
}
