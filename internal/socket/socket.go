// Package socket bounds the connections of a server, and what each of them may have on its way.
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
	userTimeout    = 30 * time.Second // what is sent and not acknowledged for so long ends a connection
)

// Listener bounds the connections that are open at a time, and sets their sockets up. Above the bound one more waits in Accept for a place,
// and others in the kernel's queue.
type Listener struct {
	net.Listener

	// Full is called when a new connection finds no place since as many are open as may be. nil: nothing is called.
	Full func()

	waits  atomic.Bool   // a new connection waits for a place
	spare  chan []byte   // memory for writes that are gathered
	open   chan struct{} // one token for each open connection, of all listeners that share the bound
	closed chan struct{}
	once   sync.Once
}

// Limit lets listeners have n connections open at a time, all together.
func Limit(n int, listeners ...net.Listener) []*Listener {
	open, spare := make(chan struct{}, n), newSpare()
	var limited []*Listener
	for _, ln := range listeners {
		limited = append(limited, &Listener{Listener: ln, open: open, closed: make(chan struct{}), spare: spare})
	}
	return limited
}

// Accept waits for a connection, and for a place for it.
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
		_ = tcp.SetWriteBuffer(sendBuffer) // one that has gone already fails its first read instead
		EndWhenDead(tcp)
	}
	return &conn{Conn: c, release: func() { <-l.open }, spare: l.spare}, nil
}

// EndWhenDead lets the kernel end a connection whose peer no longer answers, whether it is idle or bytes are on their way.
func EndWhenDead(tcp *net.TCPConn) {
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: keepAliveCount})
	_ = setUserTimeout(tcp, userTimeout)
}

// place waits for a place.
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

// Waits reports whether a new connection waits for a place.
func (l *Listener) Waits() bool { return l.waits.Load() }

// Close ends the listener and whoever waits in Accept.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn gives its place back when it is closed.
type conn struct {
	net.Conn
	once    sync.Once
	release func()
	spare   chan []byte // the listener's memory for writes that are gathered

	heard   atomic.Pointer[time.Time] // when the first bytes of the client were read
	gathers atomic.Bool               // writes wait for those that follow them
	mu      sync.Mutex                // guards the fields below
	waiting []byte                    // writes that wait; nil: the connection has no memory for them
	failed  error                     // of a write
	passes  []byte                    // control message with a descriptor, for the next write

	holding sync.Mutex // guards what follows
	held    io.Closer  // closed with the connection
	ended   bool
}

// Write writes p, unless a write has failed before: TLS would try its last word after a reader has
// stalled, and wait five seconds more for it.
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

// ReadFrom lets the server hand a body's slices on as they are: the connection writes them in one call to the kernel.
func (c *conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite lets the server end its own side first where it refuses to read on: a reset would take its answer along.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close ends the connection.
func (c *conn) Close() error {
	err := c.Conn.Close() // before the lock: it ends a write that is under way
	c.once.Do(c.release)
	c.closeHeld()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack()
	return err
}
