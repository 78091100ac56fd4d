package client

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http/httptrace"
	"strings"
	"sync"
)

// localConn is a connection to a gateway's Unix socket that can receive shared memory. It owns the
// received segments.
type localConn struct {
	*net.UnixConn

	mu       sync.Mutex // guards the fields below
	awaits   bool       // the next response may carry a descriptor
	came     int        // received descriptor; -1: none
	begins   bool       // the next write is the start of a request
	released []uint64   // ended leases that the client has not reported to the gateway yet
	segments map[uint64]*segment
	ended    bool
}

// segment is memory that a gateway shares. The connection's mutex guards it.
type segment struct {
	bytes []byte
	lent  bool // a batch uses the segment
	gone  bool // unmap the segment when its batch ends
}

// lease is the right to use the memory of one batch.
type lease struct {
	conn    *localConn
	segment *segment
	number  uint64
	data    []byte
	once    sync.Once
}

func newNeighbour(c *net.UnixConn) *localConn {
	return &localConn{UnixConn: c, came: -1, segments: map[uint64]*segment{}}
}

// watchNeighbour notifies the connection before a request is written, and sets from. awaits means
// that the response may use shared memory.
func watchNeighbour(ctx context.Context, awaits bool, from **localConn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if n, ok := info.Conn.(*localConn); ok {
			n.begin(awaits)
			*from = n
		}
	}})
}

// begin prepares the connection for a request. The connection has no other request in flight.
func (n *localConn) begin(awaits bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.forgetDescriptor()
	n.awaits, n.begins = awaits, true
}

// forgetDescriptor closes an unused descriptor. The caller holds mu.
func (n *localConn) forgetDescriptor() {
	if n.came >= 0 {
		closeDescriptor(n.came)
		n.came = -1
	}
}

// Read reads bytes and stores the descriptor that accompanies a response.
func (n *localConn) Read(p []byte) (int, error) {
	got, descriptors, err := receive(n.UnixConn, p)
	if len(descriptors) == 0 {
		return got, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.awaits && n.came < 0 && len(descriptors) == 1 && !n.ended {
		n.came = descriptors[0]
		return got, nil
	}
	for _, d := range descriptors {
		closeDescriptor(d)
	}
	return 0, fmt.Errorf("got %d file descriptors with a response that must have none: %w", len(descriptors), ErrProtocol)
}

// Write writes bytes. After the first line of a request it inserts a header with the ended leases.
func (n *localConn) Write(p []byte) (int, error) {
	with := n.withReleases(p)
	written, err := n.UnixConn.Write(with)
	return min(written, len(p)), err
}

func (n *localConn) withReleases(p []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.begins {
		return p
	}
	end := bytes.Index(p, []byte("\r\n"))
	if end < 0 {
		return p // the request line continues after p
	}
	n.begins = false
	if len(n.released) == 0 {
		return p
	}
	line := "\r\nMillrace-Release: " + strings.Trim(strings.ReplaceAll(fmt.Sprint(n.released), " ", ", "), "[]")
	n.released = nil
	return append(append(append(make([]byte, 0, len(p)+len(line)), p[:end]...), line...), p[end:]...)
}

// take returns a lease of the memory that a header describes.
func (n *localConn) take(s sharedHeader) (*lease, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer n.forgetDescriptor()
	n.awaits = false
	at, known := n.segments[s.segment]
	fault := ""
	switch {
	case n.ended:
		return nil, net.ErrClosed
	case s.fresh && n.came < 0:
		fault = "its file descriptor is missing"
	case !s.fresh && n.came >= 0:
		fault = "got a file descriptor that was not announced"
	case s.fresh && known:
		fault = "another segment has this number"
	case !s.fresh && !known:
		fault = "no segment has this number"
	case known && int64(len(at.bytes)) != s.size:
		fault = "its size has changed"
	case known && at.lent:
		fault = "another batch still uses it"
	}
	if fault != "" {
		return nil, fmt.Errorf("segment %d of shared memory: %s: %w", s.segment, fault, ErrProtocol)
	}
	if !known {
		mapped, err := mapMemory(n.came, s.size)
		if err != nil {
			return nil, fmt.Errorf("segment %d of shared memory: %w", s.segment, err)
		}
		at = &segment{bytes: mapped}
		n.segments[s.segment] = at
	}
	at.lent = true
	for _, number := range s.gone {
		n.leave(number)
	}
	return &lease{conn: n, segment: at, number: s.lease, data: at.bytes[:s.length:s.length]}, nil
}

// leave unmaps a segment, or marks it for unmapping when its batch ends. The caller holds mu.
func (n *localConn) leave(number uint64) {
	if at, ok := n.segments[number]; ok {
		delete(n.segments, number)
		if at.gone = true; !at.lent {
			unmapMemory(at.bytes)
		}
	}
}

// end releases the memory. Further calls, and calls on a nil lease, do nothing.
func (l *lease) end() {
	if l == nil {
		return
	}
	l.once.Do(func() {
		n := l.conn
		n.mu.Lock()
		defer n.mu.Unlock()
		l.data, l.segment.lent = nil, false
		if l.segment.gone {
			unmapMemory(l.segment.bytes)
		}
		if !n.ended {
			n.released = append(n.released, l.number)
		}
	})
}

// Close closes the connection. Open batches retain their memory.
func (n *localConn) Close() error {
	err := n.UnixConn.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = true
	n.forgetDescriptor()
	for number := range n.segments {
		n.leave(number)
	}
	return err
}
