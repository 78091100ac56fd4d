package s3backend

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUserTimeout reads the option back from a connection that the transport dialled.
func TestUserTimeout(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := newTransport(1, nil, quick()).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	var gotErr error
	if err := raw.Control(func(fd uintptr) {
		got, gotErr = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); err != nil || gotErr != nil || got != 30_000 {
		t.Errorf("got %d ms (%v, %v), want %d", got, err, gotErr, 30_000)
	}
}
