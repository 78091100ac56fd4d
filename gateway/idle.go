package gateway

import (
	"container/list"
	"net"
	"net/http"
	"sync"

	"github.com/millrace-data/millrace/internal/socket"
)

// idle knows the connections that are kept open between requests. Where a new one finds no place, the connection that
// was idle longest gives way: connections that ask nothing must not lock out those who do.
type idle struct {
	listener *socket.Listener

	mu    sync.Mutex // guards what follows
	order list.List  // of net.Conn, longest idle first
	at    map[net.Conn]*list.Element
}

// shedIdle makes the idle connections of a server give way.
func shedIdle(s *http.Server, ln *socket.Listener) {
	i := &idle{listener: ln, at: map[net.Conn]*list.Element{}}
	s.ConnState = i.changed
	ln.Full = i.shed
}

// changed notes the state of a connection. It closes one that becomes idle while another waits for a place.
func (i *idle) changed(c net.Conn, state http.ConnState) {
	if state == http.StateIdle && i.listener.Waits() {
		_ = c.Close() // the server notices, and the client asks again over another one
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.at[c]; e != nil {
		i.order.Remove(e)
		delete(i.at, c)
	}
	if state == http.StateIdle {
		i.at[c] = i.order.PushBack(c)
	}
}

// shed closes the connection that was idle longest.
func (i *idle) shed() {
	i.mu.Lock()
	defer i.mu.Unlock() // a request that begins meanwhile waits in changed, before its handler runs
	oldest := i.order.Front()
	if oldest == nil {
		return
	}
	c := i.order.Remove(oldest).(net.Conn)
	delete(i.at, c)
	_ = c.Close() // the server notices
}
