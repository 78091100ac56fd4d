package socket

import (
	"errors"
	"io"
	"net"
	"testing"
)

// TestServerEndsItsOwnSideFirst: net/http asks for this where it refuses to read what a client still sends.
func TestServerEndsItsOwnSideFirst(t *testing.T) {
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited := Limit(1, ln)[0]
	defer limited.Close()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := limited.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("got a connection without CloseWrite")
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes and %v, want the end", n, err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("got %d bytes and %v from the other side, want 1", n, err)
	}
}
