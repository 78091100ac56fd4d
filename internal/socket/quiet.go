package socket

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Read reads bytes of the client, and records when the first ones were read.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.heard.Load() == nil {
		now := time.Now()
		c.heard.CompareAndSwap(nil, &now)
	}
	return n, err
}

// Quiet reports whether all bytes that a client has sent have been read, and the first of them at
// least d ago, or never. A server that is short of processor time reads requests late, and must not
// treat their clients as silent.
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

// unread reports whether the kernel holds unread bytes of a connection.
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
