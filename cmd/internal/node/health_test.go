package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/certtest"
)

// TestHealthPort_AnswersProbesOnly: the port serves only health and readiness, over plain HTTP even
// if other ports use TLS.
func TestHealthPort_AnswersProbesOnly(t *testing.T) {
	path, files := filepath.Join(shortDir(t), "s"), certtest.New(t).Issue(t, t.TempDir(), nil)
	r := newRig(t, "  a: "+dataset(t)+"\n", func(c *Config) {
		c.HealthListen, c.AdminListen = "unix:"+path, "127.0.0.1:0"
		c.TLSCert, c.TLSKey = files.Cert, files.Key
	})
	defer r.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	if err := r.During(t.Context(), func(context.Context, net.Addr) error {
		for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/v1/datasets": 404, "/metrics": 404, batchOf("a"): 404} {
			a, err := client.Get("http://probe" + target)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(a.Body)
			if a.Body.Close(); err != nil || a.StatusCode != want {
				t.Errorf("%s: got %d %s %v, want %d", target, a.StatusCode, text, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// During serves until body returns. body gets the data port's address. During returns the error of
// body, of ctx or of the node.
func (s *Node) During(ctx context.Context, body func(ctx context.Context, at net.Addr) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	addr := make(chan net.Addr, 1)
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, func(at net.Addr) { addr <- at }) }()
	select {
	case err := <-served:
		return err
	case at := <-addr:
		err := errors.Join(body(ctx, at), ctx.Err())
		stop()
		return errors.Join(err, <-served)
	}
}
