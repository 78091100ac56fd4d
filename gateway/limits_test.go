package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/millrace-data/millrace/gateway"
	"github.com/millrace-data/millrace/internal/budget"
)

// TestAnnouncedBodiesHoldNoMemory: a client that only says how long its report will be takes no memory from batches.
func TestAnnouncedBodiesHoldNoMemory(t *testing.T) {
	var b *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		fastDrain(c)
		b = budget.New(8<<20, 50*time.Millisecond)
		c.Budget = b
	})
	addr, _ := r.serve(gateway.ServerConfig{Connections: 64})
	idle := b.InUse()
	for range 40 {
		fmt.Fprintf(dial(t, addr), "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 120000\r\n\r\n{", importancePath)
	}
	for range 30 {
		time.Sleep(10 * time.Millisecond)
		if got := b.InUse() - idle; got > 64<<10 {
			t.Fatalf("got %d bytes held for 40 reports that do not come, want hardly any", got)
		}
	}
}

// TestBodiesHaveAShareOfTheirOwn: reports that do come hold an eighth of the memory at most. Further ones are told to come
// again.
func TestBodiesHaveAShareOfTheirOwn(t *testing.T) {
	var b *budget.Budget
	r := newRig(t, 20, 800, func(c *gateway.Config) {
		fastDrain(c)
		b = budget.New(32<<20, 50*time.Millisecond)
		c.Budget = b
	})
	addr, _ := r.serve(gateway.ServerConfig{Connections: 64})
	idle := b.InUse()
	sent := make([]byte, 64<<10+512)
	for range 32 { // each of them takes eight times what it has sent: together four times their share
		fmt.Fprintf(dial(t, addr), "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 250000\r\n\r\n%s", importancePath, sent)
	}
	largest := int64(0)
	for end := time.Now().Add(8 * time.Second); largest < b.Total()/16 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		largest = max(largest, b.InUse()-idle)
	}
	for range 30 {
		time.Sleep(10 * time.Millisecond)
		largest = max(largest, b.InUse()-idle)
	}
	if least, most := b.Total()/16, b.Total()/8; largest < least || largest > most {
		t.Errorf("got up to %d bytes held by bodies, want at least %d and at most %d", largest, least, most)
	}
}

// TestIdleConnectionsGiveWay: connections that ask nothing do not lock others out, though the rest of them is busy for long.
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
	time.Sleep(100 * time.Millisecond) // the server notes that they are idle after their answers have come
	fmt.Fprint(dial(t, addr), "GET /epoch/0/batch/0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-entered
	for range 5 {
		healthy(dial(t, addr))
	}
	close(leave)
}
