package gateway_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// TestAnnouncedBodiesHoldNoMemory: a client that announces a long report without sending it takes
// no memory from batches.
func TestAnnouncedBodiesHoldNoMemory(t *testing.T) {
	var b *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		fastDrain(c)
		b = budget.New(8<<20, 50*time.Millisecond)
		c.Budget = b
	})
	addr, _ := r.serve(gateway.ServerConfig{Connections: 64})
	idle := b.InUse()
	var conns []*net.TCPConn
	for range 40 {
		conns = append(conns, post(t, addr, 120000, []byte("{")))
	}
	endBodies(t, conns)
	for _, conn := range conns {
		if got := statusOf(conn); got != 0 {
			t.Errorf("a body that ends early: got status %d, want none", got)
		}
	}
	if got := b.Peak() - idle; got > 64<<10 {
		t.Errorf("got %d bytes held for 40 reports that do not come, want hardly any", got)
	}
}

// TestBodiesHaveAShareOfTheirOwn: reports that arrive use at most an eighth of the memory. Further
// reports get an error to retry.
func TestBodiesHaveAShareOfTheirOwn(t *testing.T) {
	var b *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		fastDrain(c)
		b = budget.New(32<<20, 50*time.Millisecond)
		c.Budget = b
	})
	addr, _ := r.serve(gateway.ServerConfig{Connections: 64})
	const all, fit = 32, 7 // each uses eight times the bytes that it has sent; seven of them use nearly an eighth of the memory
	idle := b.InUse()
	sent := make([]byte, 64<<10+512)
	statuses := make(chan int, all)
	var conns []*net.TCPConn
	for range all {
		conn := post(t, addr, 250000, sent)
		conns = append(conns, conn)
		go func() { statuses <- statusOf(conn) }()
	}
	for range all - fit { // the remaining reports hold their sent bytes until their bodies end
		if got := <-statuses; got != http.StatusServiceUnavailable {
			t.Errorf("a report that finds no memory: got status %d, want 503", got)
		}
	}
	endBodies(t, conns)
	for range fit {
		if got := <-statuses; got != 0 {
			t.Errorf("a body that ends early: got status %d, want none", got)
		}
	}
	if got, least, most := b.Peak()-idle, b.Total()/16, b.Total()/8; got < least || got > most {
		t.Errorf("got up to %d bytes held by bodies, want at least %d and at most %d", got, least, most)
	}
	if got := b.InUse(); got != idle {
		t.Errorf("got %d bytes in use after the last answer, want %d as before", got, idle)
	}
}

// post starts a report of n bytes on a separate connection, and sends only its beginning.
func post(t *testing.T, addr string, n int, beginning []byte) *net.TCPConn {
	t.Helper()
	conn := dial(t, addr).(*net.TCPConn)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", importancePath, n, beginning)
	return conn
}

// endBodies ends the bodies on these connections.
func endBodies(t *testing.T, conns []*net.TCPConn) {
	t.Helper()
	for _, conn := range conns {
		if err := conn.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) { // the server has closed the connection
			t.Error(err)
		}
	}
}

// statusOf returns the status of the response, or 0 if the connection closes without one.
func statusOf(conn net.Conn) int {
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

// TestIdleConnectionsGiveWay: idle connections do not block new clients, even while the other
// connections are busy for a long time.
func TestIdleConnectionsGiveWay(t *testing.T) {
	r := newRig(t, 20, 800, fastDrain)
	entered, leave := make(chan struct{}), make(chan struct{})
	r.source.before = func(context.Context) error {
		close(entered)
		<-leave
		return nil
	}
	addr, _ := r.serve(gateway.ServerConfig{Connections: 4})
	healthy := func(conn net.Conn) {
		t.Helper()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("beside three idle connections and a busy one, of four: %v", err)
		}
		res.Body.Close()
	}
	for range 3 {
		healthy(dial(t, addr))
	}
	fmt.Fprint(dial(t, addr), "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	for range 5 {
		healthy(dial(t, addr))
	}
	close(leave)
}
