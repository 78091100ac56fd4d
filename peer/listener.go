package peer

import (
	"io"
	"net"
	"sync"
	"syscall"
)

const sendBuffer = 512 << 10 // the kernel doubles it for its own overhead: 1 MiB

// maxConnections leaves file descriptors for the data port, the store and the index.
func maxConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultConnections
	}
	return int(max(1, min(defaultConnections, limit.Cur/4)))
}

// limitListener bounds the connections that are open at a time, and what each may have on its way. Above the bound new
// ones wait in the kernel's queue.
func limitListener(ln net.Listener, n int) *limited {
	return &limited{Listener: ln, open: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	open   chan struct{} // one token for each open connection
	closed chan struct{}
	once   sync.Once
}

// crowded reports whether so many are open that those that are kept for later use keep others out.
func (l *limited) crowded() bool { return len(l.open) > cap(l.open)*3/4 }

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // best effort: a connection that has gone already fails its first read instead
	}
	return &limitedConn{Conn: conn, release: func() { <-l.open }}, nil
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	once    sync.Once
	release func()
}

// ReadFrom lets the server hand a body's slices on as they are: the connection writes them in one call to the kernel.
func (c *limitedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite lets the server end its own side first where it refuses to read on: a reset would take its answer along.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}
