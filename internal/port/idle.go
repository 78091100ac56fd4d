package port

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/millrace-data/millrace/internal/socket"
)

// idle knows the connections that are kept open between requests. Where a new one finds no place, the connection that
// was idle longest gives way: connections that ask nothing must not lock out those who do.
type idle struct {
	listeners []*socket.Listener

	mu    sync.Mutex // guards what follows
	order list.List  // of net.Conn, longest idle first
	at    map[net.Conn]*list.Element
	ended bool // no connection stays open between requests any more
}

// shedIdle makes the idle connections of a server give way.
func shedIdle(s *http.Server, listeners []*socket.Listener) *idle {
	i := &idle{listeners: listeners, at: map[net.Conn]*list.Element{}}
	s.ConnState = i.changed
	for _, ln := range listeners {
		ln.Full = i.shed
	}
	return i
}

// changed notes the state of a connection. It closes one that becomes idle while another waits for a place.
func (i *idle) changed(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if state == http.StateIdle && (i.ended || slices.ContainsFunc(i.listeners, (*socket.Listener).Waits)) {
		closeNow(c)
		return
	}
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
	closeNow(c)
}

// end closes the idle connections, and from now on each that becomes idle. The server would close
// them too, but say goodbye to one after the other, and let nobody else in meanwhile.
func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for e := i.order.Front(); e != nil; e = e.Next() {
		closeNow(e.Value.(net.Conn))
	}
	i.order.Init()
	clear(i.at)
}

// closeNow closes an idle connection at once. TLS would send a last word first, and wait five seconds for
// a client that reads nothing. The server notices, and the client asks again over another connection.
func closeNow(c net.Conn) {
	if secret, ok := c.(*tls.Conn); ok {
		c = secret.NetConn()
	}
	_ = c.Close()
}
