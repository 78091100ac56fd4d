package client

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/millrace-data/millrace/internal/leaks"
)

// neighbours returns both ends of a connection.
func neighbours(t *testing.T) (n *neighbour, gateway *net.UnixConn) {
	t.Helper()
	leaks.Check(t)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, d := range pair {
		f := os.NewFile(uintptr(d), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
	}
	t.Cleanup(func() { ends[1].Close() })
	n = newNeighbour(ends[0])
	t.Cleanup(func() { n.Close() })
	return n, ends[1]
}

// TestNeighbour_EndsAsReadersDo: net/http knows by io.EOF itself a body that has no length, and a connection that was idle when it was closed.
func TestNeighbour_EndsAsReadersDo(t *testing.T) {
	n, gateway := neighbours(t)
	if _, err := gateway.Write([]byte("bytes")); err != nil {
		t.Fatal(err)
	}
	gateway.Close()
	p := make([]byte, 9)
	if got, err := n.Read(p); got != 5 || err != nil {
		t.Errorf("got %d bytes, %v, want 5", got, err)
	}
	if got, err := n.Read(p); got != 0 || err != io.EOF { //nolint:errorlint // as io.Reader says
		t.Errorf("at the end: got %d bytes, %v, want %v", got, err, io.EOF)
	}
	n.Close()
	if got, err := n.Read(p); got != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %d bytes, %v, want %v", got, err, net.ErrClosed)
	}
}
