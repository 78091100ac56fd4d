package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/client"
)

// TestUnixSocket reads from a gateway at a socket whose path no URL could contain, with a token
// that must not be sent over a network without TLS.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "m") // the test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "odd %2f name?#")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var hosts, tokens []string
	f := &fake{batches: 4, generation: "g1"}
	f.fault = func(_ int, _ http.ResponseWriter, r *http.Request) bool {
		hosts, tokens = append(hosts, r.Host), append(tokens, r.Header.Get("Authorization"))
		return false
	}
	s := httptest.NewUnstartedServer(f)
	s.Listener = ln
	s.Start()
	t.Cleanup(s.Close)
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	c, err := client.New(client.Config{Gateways: []string{"unix:" + path}, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdle()
	b, err := c.Batch(t.Context(), client.Options{Epoch: 1}, 2)
	if err != nil || string(b.Bytes()) != string(body(1, 2)) {
		t.Fatalf("got %v, %v, want batch 2", b, err)
	}
	if hosts[0] != "localhost" || tokens[0] != "Bearer secret" {
		t.Errorf("got host %q and token %q, want localhost and the token", hosts[0], tokens[0])
	}
	var said *client.Error
	if _, err := c.Batch(t.Context(), client.Options{}, 7); !errors.As(err, &said) || said.Gateway != "unix:"+path {
		t.Errorf("got %v, want an error that names unix:%s", err, path)
	}
	for _, address := range []string{"unix:", "unix:relative", "unix:a/b"} {
		if _, err := client.New(client.Config{Gateways: []string{address}}); err == nil || !strings.Contains(err.Error(), "unix:/run/millrace/socket") {
			t.Errorf("%s: got %v, want the form of an address", address, err)
		}
	}
	if _, err := client.New(client.Config{Gateways: []string{"unix:" + path}, HTTP: http.DefaultClient}); err == nil {
		t.Error("a caller's own HTTP was taken for a socket")
	}
}
