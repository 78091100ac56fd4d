package harness

import (
	"context"
	"net"
	"net/http"
	"os"
	"testing"
)

// Island is a separate network on this machine: nodes with one address each, joined by one switch.
// It has no connections to the outside, so that any number of islands may use the same addresses.
// The system has no name for an island: it consists of network namespaces that only this process
// holds open, and ends with the process, however that ends.
type Island struct {
	hub   *Node
	nodes []*Node
}

// Node is one machine of an island. A nil *Node is this machine.
type Node struct {
	Name string
	IP   string

	island *Island
	port   string   // port in the switch
	mac    string   // MAC address of the node's link
	space  *os.File // network namespace
	http   *http.Client
}

// Do runs do in the node's network: sockets that it opens and processes that it starts belong to
// that network.
func (n *Node) Do(do func() error) error {
	if n == nil {
		return do()
	}
	return inside(n.space, do)
}

// Dial opens a connection from the node to an IP address and port. It resolves no host names.
func (n *Node) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Listen opens a listener on the node.
func (n *Node) Listen(t testing.TB, address string) (l net.Listener) {
	t.Helper()
	err := n.Do(func() (err error) {
		l, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client returns an HTTP client on the node.
func (n *Node) client() *http.Client {
	if n == nil {
		return http.DefaultClient
	}
	return n.http
}

// Transport returns a new transport that dials from the node.
func (n *Node) Transport() *http.Transport {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	if n != nil {
		tr.DialContext = n.Dial
	}
	return tr
}
