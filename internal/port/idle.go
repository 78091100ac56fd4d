package port

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-data/millrace/internal/socket"
)

// silentTime is the time that a new connection has to send its first bytes, and again for the rest
// of its first request's head. It applies while the limit on connections is reached.
const silentTime = 250 * time.Millisecond

// idle tracks connections without a request. Silent connections have not sent a whole head yet
// (with TLS they may be in their handshake). Kept connections are open between requests. When a new
// connection needs room, one of them is closed: a silent one if there is any, otherwise a kept one.
// Neither kind can lock out clients that send requests. A connection with bytes that the server has
// not read yet is not closed.
type idle struct {
	listeners []*socket.Listener

	mu     sync.Mutex               // guards the fields below
	fresh  map[net.Conn]*time.Timer // have been silent for less than silentTime, so are not closed yet
	silent queue
	kept   queue
	ended  bool // connections are no longer kept between requests
}

// shedIdle makes a server close connections without a request when new ones need room.
func shedIdle(s *http.Server, listeners []*socket.Listener) *idle {
	i := &idle{listeners: listeners, fresh: map[net.Conn]*time.Timer{}}
	s.ConnState = i.changed
	for _, ln := range listeners {
		ln.Full = i.shed
	}
	return i
}

// changed records the state of a connection.
func (i *idle) changed(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if state == http.StateIdle && i.ended {
		closeNow(c)
		return
	}
	if timer := i.fresh[c]; timer != nil {
		timer.Stop()
		delete(i.fresh, c)
	}
	i.silent.remove(c)
	i.kept.remove(c)
	switch state { //nolint:exhaustive // in the other states a connection has a request, or is closed
	case http.StateNew:
		i.watch(c)
	case http.StateIdle:
		i.kept.add(c)
		i.makeRoom()
	}
}

// watch makes a connection fresh for silentTime. The caller holds mu.
func (i *idle) watch(c net.Conn) { i.fresh[c] = time.AfterFunc(silentTime, func() { i.age(c) }) }

// age marks a connection as silent after it has been fresh for silentTime.
func (i *idle) age(c net.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fresh[c] == nil { // the connection has sent a request meanwhile
		return
	}
	delete(i.fresh, c)
	if !socket.Quiet(c, silentTime) {
		i.watch(c)
		return
	}
	i.silent.add(c)
	i.makeRoom()
}

// makeRoom closes a connection if another one waits for room. The caller holds mu, as for the
// methods below.
func (i *idle) makeRoom() {
	if slices.ContainsFunc(i.listeners, (*socket.Listener).Waits) {
		i.closeFirst()
	}
}

// closeFirst closes the first connection in the order of the queues. It spares a connection that
// has just sent bytes, because its request is about to begin.
func (i *idle) closeFirst() {
	for {
		c, since := i.silent.first(), silentTime
		if c == nil {
			c, since = i.kept.first(), 0
		}
		if c == nil {
			return
		}
		i.silent.remove(c)
		i.kept.remove(c)
		if socket.Quiet(c, since) {
			closeNow(c)
			return
		}
		i.watch(c)
	}
}

// shed makes room for a waiting connection.
func (i *idle) shed() {
	i.mu.Lock()
	defer i.mu.Unlock() // a request that begins meanwhile waits in changed, before its handler runs
	i.closeFirst()
}

// end closes the kept connections, and from now on each connection that becomes idle. The server
// would close them too, but one after another, each with a TLS close alert, and would accept no
// other connection meanwhile.
func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for c := i.kept.first(); c != nil; c = i.kept.first() {
		i.kept.remove(c)
		closeNow(c)
	}
}

// closeNow closes an idle connection at once. TLS would send a close alert first, and wait five
// seconds for a client that reads nothing. The server notices the end, and the client sends its
// next request over another connection.
func closeNow(c net.Conn) {
	if secret, ok := c.(*tls.Conn); ok {
		c = secret.NetConn()
	}
	_ = c.Close()
}
