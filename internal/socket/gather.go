package socket

import (
	"context"
	"net"
)

const (
	// gatherBytes is the length of one write to the kernel: eight full TLS records, each with
	// its header and authentication tag. A write for each record would cost a fifth of the
	// throughput between two gateways.
	gatherBytes = 8 * (16<<10 + 64)
	// gathering is the maximum number of connections of a listener that gather at the same
	// time, 8 MiB in all. Others write each record separately.
	gathering = 64
)

func newSpare() chan []byte {
	spare := make(chan []byte, gathering)
	for range gathering {
		spare <- nil // allocated on first use
	}
	return spare
}

type gatherKey struct{}

// Keep is an http.Server's ConnContext. It stores the connection below TLS for Gatherer, and that
// of a Unix socket for LocalOf.
func Keep(ctx context.Context, c net.Conn) context.Context {
	ctx = keepLocal(ctx, c)
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		if under, ok := over.NetConn().(*conn); ok {
			return context.WithValue(ctx, gatherKey{}, under)
		}
	}
	return ctx
}

// Gatherer returns a function that sets whether more bytes follow those of the next writes of a
// request's connection. While more follow, writes may be held back; a write after which nothing
// follows sends them all. Without TLS the function does nothing, because parts of a body go to the
// kernel together anyway.
func Gatherer(ctx context.Context) func(more bool) {
	if c, ok := ctx.Value(gatherKey{}).(*conn); ok {
		return c.gathers.Store
	}
	return func(bool) {}
}

// gather holds p back for a later write, if there is memory for it. The caller holds mu, as for the
// methods below.
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

// flush writes the bytes held back.
func (c *conn) flush() {
	if len(c.waiting) > 0 && c.failed == nil {
		_, c.failed = c.Conn.Write(c.waiting)
	}
	c.waiting = c.waiting[:0]
}

// giveBack returns the memory of the bytes held back to the listener.
func (c *conn) giveBack() {
	if c.waiting != nil {
		c.spare <- c.waiting[:0]
		c.waiting = nil
	}
}
