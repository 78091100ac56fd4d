package socket

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
)

// Local is a connection of a Unix socket: its other end is a process of this machine, which can be given descriptors.
type Local struct {
	*conn
	peer func() (uid uint32, ok bool)
}

type localKey struct{}

// LocalOf returns the connection of a request that came over a Unix socket, and nil for any other.
func LocalOf(ctx context.Context) *Local {
	l, _ := ctx.Value(localKey{}).(*Local)
	return l
}

// keepLocal lets LocalOf find the connection.
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

// UID returns the number of the user whose process has connected. ok says that the number means the same user here. The kernel is asked
// once a connection.
func (l *Local) UID() (uid uint32, ok bool) { return l.peer() }

// Holds returns what the connection holds and closes when it is closed itself. make is called the first time. Of a connection that is
// closed already, what make returns is closed at once.
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

// Pass has the next write of the connection take a descriptor along. It is duplicated by the kernel as it is sent, so it must stay open
// until then. A negative number takes the request back.
func (l *Local) Pass(descriptor int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.passes = nil
	if descriptor >= 0 {
		l.passes = syscall.UnixRights(descriptor)
	}
}

// writePassing writes p with the descriptor that is to go along with its first byte. The caller holds mu.
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

// closeHeld closes what the connection holds.
func (c *conn) closeHeld() {
	c.holding.Lock()
	defer c.holding.Unlock()
	if c.held != nil && !c.ended {
		_ = c.held.Close()
	}
	c.ended = true
}
