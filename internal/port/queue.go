package port

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
)

// queue holds connections in the order in which they are closed to make room. The first one is the
// oldest connection of the client address with the most connections. So an address that opens many
// connections loses its own before other addresses lose theirs. The zero value is an empty queue.
type queue struct {
	at      map[net.Conn]*list.Element // list element of each connection, in the list of its client
	clients map[netip.Prefix]*client
	order   byNumber
	added   uint64 // number of connections ever added
}

// client is the address of a client, with its connections.
type client struct {
	address netip.Prefix
	conns   list.List // list of entries, oldest first
	index   int       // in byNumber
}

type entry struct {
	net.Conn
	client *client
	number uint64 // sequence number by arrival
}

// add appends a connection to the list of its address.
func (q *queue) add(c net.Conn) {
	if q.at == nil {
		q.at, q.clients = map[net.Conn]*list.Element{}, map[netip.Prefix]*client{}
	}
	address := addressOf(c)
	from := q.clients[address]
	if from == nil {
		from = &client{address: address, index: len(q.order)}
		q.clients[address], q.order = from, append(q.order, from)
	}
	q.added++
	q.at[c] = from.conns.PushBack(entry{c, from, q.added})
	heap.Fix(&q.order, from.index)
}

// remove removes a connection from the queue, if it is there.
func (q *queue) remove(c net.Conn) {
	e := q.at[c]
	if e == nil {
		return
	}
	delete(q.at, c)
	from := e.Value.(entry).client
	from.conns.Remove(e)
	if from.conns.Len() > 0 {
		heap.Fix(&q.order, from.index)
		return
	}
	heap.Remove(&q.order, from.index)
	delete(q.clients, from.address)
}

// first returns the connection to be closed first, or nil.
func (q *queue) first() net.Conn {
	if len(q.order) == 0 {
		return nil
	}
	return q.order[0].oldest().Conn
}

func (c *client) oldest() entry { return c.conns.Front().Value.(entry) }

// addressOf returns the address of a client. For IPv6 it is the /64 network, because one machine
// may use all its addresses. All clients of a Unix socket share one address.
func addressOf(c net.Conn) netip.Prefix {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	address := tcp.AddrPort().Addr().Unmap()
	network, _ := address.Prefix(min(64, address.BitLen())) // the address is at least that long
	return network
}

// byNumber is a heap of clients with connections. The client with the most connections comes first,
// and among equals the one with the oldest connection.
type byNumber []*client

func (b byNumber) Len() int { return len(b) }

func (b byNumber) Less(i, j int) bool {
	if more := b[i].conns.Len() - b[j].conns.Len(); more != 0 {
		return more > 0
	}
	return b[i].oldest().number < b[j].oldest().number
}

func (b byNumber) Swap(i, j int) {
	b[i], b[j] = b[j], b[i]
	b[i].index, b[j].index = i, j
}

func (b *byNumber) Push(x any) { *b = append(*b, x.(*client)) }

func (b *byNumber) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}
