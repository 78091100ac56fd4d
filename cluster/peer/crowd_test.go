package peer

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestKeptConnectionsMakeRoom: where hundreds of gateways keep connections, a newcomer must not
// wait until one is given up.
func TestKeptConnectionsMakeRoom(t *testing.T) {
	cfg := serverOf(newShelf(1, 100))
	cfg.Connections = 4
	address := start(t, cfg)
	closes := func() bool {
		resp, err := http.Post("http://"+address+helloPath, contentJSON, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.Close
	}
	defer http.DefaultClient.CloseIdleConnections()
	if closes() {
		t.Error("got a connection closed where there is room")
	}
	for range 3 { // with the one that is kept: four
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for range 1000 { // until they are accepted
		if closes() {
			return
		}
	}
	t.Error("got a connection kept where all are taken")
}
