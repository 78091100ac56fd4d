package socket

import (
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
)

// TestCloseWrite_EndsOneSide: net/http calls CloseWrite when it does not read the rest of a
// request.
func TestCloseWrite_EndsOneSide(t *testing.T) {
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

// TestLimit_IsShared: the number of open connections of all listeners together is within the limit.
func TestLimit_IsShared(t *testing.T) {
	var both []net.Listener
	for range 2 {
		ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, ln)
	}
	limited, accepted := Limit(2, both...), make(chan net.Conn)
	for _, ln := range limited {
		defer ln.Close()
		go func() {
			for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
				accepted <- c
			}
		}()
	}
	for i := range 12 { // enough for a waiting connection at both listeners, whichever of them gets the slots
		client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", both[i%2].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
	}
	open := []net.Conn{<-accepted, <-accepted}
	for range 4 {
		for !limited[0].Waits() || !limited[1].Waits() {
			select {
			case <-accepted:
				t.Fatal("got a third connection, want two at most")
			default:
				runtime.Gosched()
			}
		}
		open[0].Close()
		open = append(open[1:], <-accepted)
	}
}
