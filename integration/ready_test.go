package integration_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/millrace-data/millrace/integration/harness"
)

// TestReadyOnceTheOthersAreMet checks that a joining gateway is not ready until another gateway has
// answered its hello. A proxy in front of the other's peer port delays that hello, and checks the
// joining gateway meanwhile. The joining gateway already serves batches.
func TestReadyOnceTheOthersAreMet(t *testing.T) {
	store := packed(t, "dir")
	f := trio(t, store, func(c *harness.FleetConfig) { c.Size = 2 })
	f.Start(t, 0)
	comes, standIn := f.Members[1], harness.FreeAddress(t)
	looks := make(chan looked, 1)
	standBefore(t, standIn, f.Members[0].Peer, func(ctx context.Context) {
		select {
		case looks <- look(ctx, comes):
		default: // a later hello
		}
	})
	f.Begin(t, 1, "--join", standIn)
	comes.Ready(t, harness.Answers(comes.URL+"/readyz"))
	if err := comes.Sees(2)(t.Context()); err != nil {
		t.Errorf("once it is ready: %v", err)
	}
	if got := comes.Metric(t, "millrace_ready", ""); got != 1 {
		t.Errorf("got millrace_ready %v, want 1", got)
	}
	if len(looks) == 0 {
		t.Fatal("it was ready before it had said hello")
	}
	l := <-looks
	if l.err != nil {
		t.Fatalf("before the hello was answered: %v", l.err)
	}
	if p := problemOf(t, l.ready); l.ready.Status != http.StatusServiceUnavailable || p.Code != "starting" || l.ready.Header.Get("Retry-After") == "" {
		t.Errorf("/readyz before the hello was answered: got %d %s, want 503 starting", l.ready.Status, l.ready.Body)
	}
	if l.batch.Status != http.StatusOK {
		t.Errorf("a batch before the hello was answered: got %d %s, want 200", l.batch.Status, l.batch.Body)
	}
}

// looked holds a gateway's responses about its readiness and for a batch.
type looked struct {
	ready, batch harness.Response
	err          error
}

// look requests the readiness and a batch from a gateway while one of the gateway's hellos is
// pending. ctx ends with that hello.
func look(ctx context.Context, m *harness.Member) (l looked) {
	if l.ready, l.err = m.Try(ctx, "/readyz"); l.err == nil {
		l.batch, l.err = m.Try(ctx, batchPath(0, 0))
	}
	return l
}

// standBefore starts a proxy in front of the peer port of a gateway. It calls look for each request
// before it forwards the request.
func standBefore(t *testing.T, listen, gateway string, look func(context.Context)) {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	forward := &httputil.ReverseProxy{
		Transport:    transport,
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: gateway}) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		look(r.Context())
		forward.ServeHTTP(w, r)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
}

// TestReadyOneAfterTheOther starts each of three gateways when the previous one is ready, as a
// StatefulSet does. Each gateway's list names all three. The first one finds no other, and becomes
// ready nevertheless. Each later one has met another gateway when it is ready.
func TestReadyOneAfterTheOther(t *testing.T) {
	f := trio(t, packed(t, "dir"), nil)
	for i, m := range f.Members {
		f.Start(t, i)
		v, err := m.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		alive := 0
		for _, o := range v.Members {
			if o.State == "alive" {
				alive++
			}
		}
		if i > 0 && alive == 0 {
			t.Errorf("%s: got %+v, want another one alive", m.Name, v)
		}
	}
}
