package socket

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
)

// Local is a connection of a Unix socket. Its other end is a process of this machine, which can
// receive descriptors.
type Local struct {
	*conn
	peer func() (uid uint32, ok bool)
}

type localKey struct{}

// LocalOf returns the connection of a request that arrived over a Unix socket, and nil for any
// other.
func LocalOf(ctx context.Context) *Local {
	l, _ := ctx.Value(localKey{}).(*Local)
	return l
}

// keepLocal stores the connection for LocalOf.
func keepLocal(ctx context.Context, c net.Conn) context.Context {
	own, ok := c.(*conn)
	if !ok {
		return ctx
	}
	local, ok := own.Conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	peer := sync.OnceValues(func() (uint32, bool) { return peerOf(local) })
	return context.WithValue(ctx, localKey{}, &Local{own, peer})
}

// UID returns the uid of the process that has connected. ok reports whether the number means the
// same user in this process. The kernel is asked once for each connection.
func (l *Local) UID() (uid uint32, ok bool) { return l.peer() }

// Holds returns the object that is closed with the connection. The first call creates it with make.
// If the connection is already closed, the new object is closed at once.
func (l *Local) Holds(make func() io.Closer) io.Closer {
	c := l.conn
	c.holding.Lock()
	defer c.holding.Unlock()
	if c.held == nil {
		c.held = make()
		if c.ended {
			_ = c.held.Close()
		}
	}
	return c.held
}

// Pass sends a descriptor with the next write of the connection. The kernel duplicates it during
// that write, so it must stay open until then. A negative number cancels the request.
func (l *Local) Pass(descriptor int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes = nil
	if descriptor >= 0 {
		l.passes = syscall.UnixRights(descriptor)
	}
}

// writePassing writes p with the pending descriptor. The caller holds mu.
func (c *conn) writePassing(p []byte) (int, error) {
	local := c.Conn.(*net.UnixConn)
	n, _, err := local.WriteMsgUnix(p, c.passes, nil)
	c.passes = nil
	if err != nil || n == len(p) {
		return n, err
	}
	more, err := c.Conn.Write(p[n:])
	return n + more, err
}

// closeHeld closes the object that Holds created.
func (c *conn) closeHeld() {
	c.holding.Lock()
	defer c.holding.Unlock()
	if c.held != nil && !c.ended {
		_ = c.held.Close()
	}
	c.ended = true
}
