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

// silentTime is how long a new connection may take to send its first bytes, and then the rest of the head of its first request, while no
// place is left.
const silentTime = 250 * time.Millisecond

// idle knows the connections that have no request: the silent ones, which have not sent a whole head yet (with TLS they may be in
// their handshake), and those that are kept open between requests. Where a new connection finds no place, one of them gives way:
// a silent one if there is any, else a kept one. Neither locks out clients that send requests. A connection whose bytes the server has
// not read yet does not give way.
type idle struct {
	listeners []*socket.Listener

	mu     sync.Mutex               // guards what follows
	fresh  map[net.Conn]*time.Timer // silent for less than silentTime: they do not give way yet
	silent queue
	kept   queue
	ended  bool // no connection stays open between requests any more
}

// shedIdle makes the connections of a server that have no request give way.
func shedIdle(s *http.Server, listeners []*socket.Listener) *idle {
	i := &idle{listeners: listeners, fresh: map[net.Conn]*time.Timer{}}
	s.ConnState = i.changed
	for _, ln := range listeners {
		ln.Full = i.shed
	}
	return i
}

// changed notes the state of a connection.
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

// watch lets a connection be fresh for silentTime. The caller holds mu.
func (i *idle) watch(c net.Conn) { i.fresh[c] = time.AfterFunc(silentTime, func() { i.age(c) }) }

// age notes that a connection has been fresh for silentTime.
func (i *idle) age(c net.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fresh[c] == nil { // it has sent a request meanwhile
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

// makeRoom closes a connection if another one waits for a place. The caller holds mu, as in what follows.
func (i *idle) makeRoom() {
	if slices.ContainsFunc(i.listeners, (*socket.Listener).Waits) {
		i.closeFirst()
	}
}

// closeFirst closes the connection that gives way first. One that has just sent bytes is about to have a request.
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

// shed makes room for a connection that has found no place.
func (i *idle) shed() {
	i.mu.Lock()
	defer i.mu.Unlock() // a request that begins meanwhile waits in changed, before its handler runs
	i.closeFirst()
}

// end closes the kept connections, and from now on each that becomes idle. The server would close
// them too, but say goodbye to one after the other, and let nobody else in meanwhile.
func (i *idle) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for c := i.kept.first(); c != nil; c = i.kept.first() {
		i.kept.remove(c)
		closeNow(c)
	}
}

// closeNow closes an idle connection at once. TLS would send a last word first, and wait five seconds for
// a client that reads nothing. The server notices, and the client asks again over another connection.
func closeNow(c net.Conn) {
	if secret, ok := c.(*tls.Conn); ok {
		c = secret.NetConn()
	}
	_ = c.Close()
}
