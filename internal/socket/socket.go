// Package socket limits the number of a server's connections, and the unsent bytes of each
// connection.
package socket

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sendBuffer     = 512 << 10 // the kernel doubles it for its own overhead: 1 MiB
	keepAlive      = 15 * time.Second
	keepAliveCount = 3
	userTimeout    = 30 * time.Second // bytes that stay unacknowledged for this time end the connection
)

// Listener limits the number of open connections, and sets their socket options. Above the limit
// one more connection waits in Accept, and others in the kernel's queue.
type Listener struct {
	net.Listener

	// Full is called when a new connection must wait because the limit is reached. It may be nil.
	Full func()

	waits  atomic.Bool   // a new connection is waiting for room
	spare  chan []byte   // memory for gathered writes
	open   chan struct{} // one token for each open connection of all listeners that share the limit
	closed chan struct{}
	once   sync.Once
}

// Limit returns listeners that together have at most n connections open at a time.
func Limit(n int, listeners ...net.Listener) []*Listener {
	open, spare := make(chan struct{}, n), newSpare()
	var limited []*Listener
	for _, ln := range listeners {
		limited = append(limited, &Listener{Listener: ln, open: open, closed: make(chan struct{}), spare: spare})
	}
	return limited
}

// Accept waits for a connection and for room below the limit.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if err := l.place(); err != nil {
		_ = c.Close()
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // if the connection is closed already, its first read fails instead
		EndWhenDead(tcp)
	}
	return &conn{Conn: c, release: func() { <-l.open }, spare: l.spare}, nil
}

// EndWhenDead makes the kernel end a connection whose peer no longer answers, whether it is idle or
// sending.
func EndWhenDead(tcp *net.TCPConn) {
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: keepAliveCount})
	_ = setUserTimeout(tcp, userTimeout)
}

// place waits for room below the limit.
func (l *Listener) place() error {
	select {
	case l.open <- struct{}{}:
		return nil
	default:
	}
	l.waits.Store(true)
	defer l.waits.Store(false)
	if l.Full != nil {
		l.Full()
	}
	select {
	case l.open <- struct{}{}:
		return nil
	case <-l.closed:
		return net.ErrClosed
	}
}

// Waits reports whether a new connection waits for room.
func (l *Listener) Waits() bool { return l.waits.Load() }

// Close closes the listener and ends a waiting Accept.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is a connection that frees its slot in the limit when it is closed.
type conn struct {
	net.Conn
	once    sync.Once
	release func()
	spare   chan []byte // the listener's memory for gathered writes

	heard   atomic.Pointer[time.Time] // when the client's first bytes were read
	gathers atomic.Bool               // writes are held back for the following ones
	mu      sync.Mutex                // guards the fields below
	waiting []byte                    // writes held back; nil: the connection has no memory for them
	failed  error                     // error of the first failed write
	passes  []byte                    // control message with a descriptor, for the next write

	holding sync.Mutex // guards the field below
	held    io.Closer  // closed with the connection
	ended   bool
}

// Write writes p unless an earlier write has failed. Without that check, TLS would try to send a
// close alert after a stalled reader, and wait five seconds more.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, c.failed
	}
	more := c.gathers.Load()
	if len(c.waiting)+len(p) > gatherBytes {
		c.flush()
	}
	if (more || len(c.waiting) > 0) && c.gather(p) {
		if !more {
			c.flush()
			c.giveBack()
		}
		return len(p), c.failed
	}
	if c.giveBack(); c.failed != nil {
		return 0, c.failed
	}
	var n int
	if c.passes != nil {
		n, c.failed = c.writePassing(p)
	} else {
		n, c.failed = c.Conn.Write(p)
	}
	return n, c.failed
}

// ReadFrom lets the server pass the slices of a body unchanged. The connection writes them in one
// call to the kernel.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite lets the server close its side first if it does not read the rest of a request. A
// reset could destroy the answer on its way.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends the connection.
func (c *conn) Close() error {
	err := c.Conn.Close() // called before the lock is taken, because it ends a write in progress
	c.once.Do(c.release)
	c.closeHeld()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack()
	return err
}
