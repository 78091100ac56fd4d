package socket

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Read reads bytes of the client, and notes when the first ones came.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.heard.Load() == nil {
		now := time.Now()
		c.heard.CompareAndSwap(nil, &now)
	}
	return n, err
}

// Quiet reports whether no bytes of a client wait to be read, and its first ones were read at least d ago, or none were. A server
// that is short of processor time reads requests late, and must not take their clients for silent.
func Quiet(c net.Conn, d time.Duration) bool {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	own, ok := c.(*conn)
	if !ok {
		return true
	}
	heard := own.heard.Load()
	return (heard == nil || time.Since(*heard) >= d) && !unread(own.Conn)
}

// unread reports whether the kernel has bytes of a connection that were not read.
func unread(c net.Conn) bool {
	system, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := system.SyscallConn()
	if err != nil {
		return false
	}
	var n int
	_ = raw.Control(func(fd uintptr) {
		n, _, _ = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return n > 0
}
