package socket

import (
	"context"
	"net"
)

const (
	// gatherBytes is what one call to the kernel writes: eight full records of TLS, each with its head and its seal. A call for each
	// record costs a fifth of the rate between two gateways.
	gatherBytes = 8 * (16<<10 + 64)
	// gathering is how many connections of a listener gather at a time: 8 MiB. The others write each record by itself.
	gathering = 64
)

func newSpare() chan []byte {
	spare := make(chan []byte, gathering)
	for range gathering {
		spare <- nil // memory comes when it is needed
	}
	return spare
}

type gatherKey struct{}

// Keep is an http.Server's ConnContext: it lets Gatherer find the connection below TLS, and LocalOf that of a Unix socket.
func Keep(ctx context.Context, c net.Conn) context.Context {
	ctx = keepLocal(ctx, c)
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		if under, ok := over.NetConn().(*conn); ok {
			return context.WithValue(ctx, gatherKey{}, under)
		}
	}
	return ctx
}

// Gatherer returns a function that tells the connection of a request whether more bytes follow those that are written now. Such
// bytes may wait for the others, until a write of which the function has said that nothing follows. The function does nothing
// without TLS, where parts of a body go to the kernel together anyway.
func Gatherer(ctx context.Context) func(more bool) {
	if c, ok := ctx.Value(gatherKey{}).(*conn); ok {
		return c.gathers.Store
	}
	return func(bool) {}
}

// gather keeps p for later, if there is memory for it. The caller holds mu, as in what follows.
func (c *conn) gather(p []byte) bool {
	if len(p) > gatherBytes || c.failed != nil {
		return false
	}
	if c.waiting == nil {
		select {
		case c.waiting = <-c.spare:
		default:
			return false
		}
		if c.waiting == nil {
			c.waiting = make([]byte, 0, gatherBytes)
		}
	}
	c.waiting = append(c.waiting, p...)
	return true
}

// flush writes what waits.
func (c *conn) flush() {
	if len(c.waiting) > 0 && c.failed == nil {
		_, c.failed = c.Conn.Write(c.waiting)
	}
	c.waiting = c.waiting[:0]
}

// giveBack gives the memory for waiting writes back.
func (c *conn) giveBack() {
	if c.waiting != nil {
		c.spare <- c.waiting[:0]
		c.waiting = nil
	}
}
