package s3backend

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// names is a name server that resolves every name to 127.0.0.1 until it is down.
type names struct {
	down bool
	wg   sync.WaitGroup
}

var errNamesDown = errors.New("name service down")

func (n *names) dial(context.Context, string, string) (net.Conn, error) {
	if n.down {
		return nil, errNamesDown
	}
	ours, theirs := net.Pipe()
	n.wg.Go(func() {
		defer theirs.Close()
		for {
			var size [2]byte
			if _, err := io.ReadFull(theirs, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(theirs, query); err != nil {
				return
			}
			reply := known(query)
			if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
				return
			}
		}
	})
	return ours, nil
}

// known returns the response to a query: 127.0.0.1 for an IPv4 address, nothing for other types.
func known(query []byte) []byte {
	const header, typeA = 12, 1
	end := header
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5 // the root label, type and class
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[header:end]...)
	if query[end-3] == typeA {
		reply[7] = 1
		reply = append(reply, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	return reply
}

// TestNameServiceDown checks that, while name resolution fails, the last good address is used for a
// while, and no other address is.
func TestNameServiceDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n := &names{}
	defer n.wg.Wait()
	d := &dialer{net: net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: n.dial}}, good: map[string]addresses{}}
	store, other := "store.test.:"+port, "other.test.:"+port
	for _, step := range []struct {
		name    string
		before  func()
		address string
		ok      bool
	}{
		{"sound", func() {}, store, true},
		{"down", func() { n.down = true }, store, true},
		{"a name never seen", func() {}, other, false},
		{"down for long", func() {
			d.good[store] = addresses{last: ln.Addr().String(), at: time.Now().Add(-remember - time.Second)}
		}, store, false},
		{"back", func() { n.down = false }, store, true},
		{"the store is gone", func() { ln.Close() }, store, false},
	} {
		step.before()
		conn, err := d.dial(t.Context(), "tcp", step.address)
		if (err == nil) != step.ok {
			t.Errorf("%s: got %v, want a connection: %v", step.name, err, step.ok)
		}
		if err == nil {
			conn.Close()
		}
		if dns := (*net.DNSError)(nil); err != nil && errors.As(err, &dns) != n.down {
			t.Errorf("%s: got %v, want a fault of the name service: %v", step.name, err, n.down)
		}
	}
}
