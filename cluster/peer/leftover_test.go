package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/leaks"
)

// TestRequests_LeaveNothing: after a request, however it ends, nothing is left in its caller's
// context, and the memory for the question is released.
func TestRequests_LeaveNothing(t *testing.T) {
	shelf := newShelf(1, 100)
	server := NewServer(serverOf(shelf))
	client := asker(t, func(c *ClientConfig) { c.Transport = direct{server} })
	q, dst, _ := shelf.question(1, 10)
	other := *q
	other.Generation = "other"
	cut := func(ctx context.Context, path string) error {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, iotest.ErrReader(io.ErrUnexpectedEOF))
		r.Header, r.ContentLength = header(), 100
		out := httptest.NewRecorder()
		if server.ServeHTTP(out, r); out.Code == http.StatusOK {
			return nil
		}
		return ErrMalformed
	}
	for _, c := range []struct {
		name string
		do   func(context.Context) error
		want error
	}{
		{"read", func(ctx context.Context) error { return client.Read(ctx, "b:1", q, dst) }, nil},
		{"read that is refused", func(ctx context.Context) error { return client.Read(ctx, "b:1", &other, dst) }, ErrNotServed},
		{"read that breaks off", func(ctx context.Context) error { return cut(ctx, readPath) }, ErrMalformed},
		{"read by itself", func(ctx context.Context) error {
			text, err := q.AppendBinary(nil)
			if err != nil {
				return err
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, readPath, strings.NewReader(string(text)))
			r.Header = header()
			server.ServeHTTP(httptest.NewRecorder(), r)
			return nil
		}, nil},
		{"hello", func(ctx context.Context) error {
			_, err := client.Hello(ctx, "b:1", Hello{ID: "a"})
			return err
		}, nil},
		{"hello that breaks off", func(ctx context.Context) error { return cut(ctx, helloPath) }, ErrMalformed},
	} {
		ctx := leaks.NewContext()
		if err := c.do(ctx); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if got := ctx.Open(); got != 0 {
			t.Errorf("%s: got %d contexts that have not ended, want none", c.name, got)
		}
		if !server.unreserved.TryAcquire(unreservedBudget) {
			t.Fatalf("%s: memory for the question was not given back", c.name)
		}
		server.unreserved.Release(unreservedBudget)
	}
}

func TestWatchdog_LeavesNoTimerAndNoLock(t *testing.T) {
	_, w := startWatchdog(t.Context(), time.Hour, time.Hour, time.Hour)
	if err := w.fault(io.EOF); !errors.Is(err, ErrDown) {
		t.Errorf("got %v, want %v", err, ErrDown)
	}
	if !w.mu.TryLock() {
		t.Fatal("the lock is held")
	}
	w.mu.Unlock()
	w.finish()
	if w.timer.Stop() {
		t.Error("the timer still ran")
	}
}

// TestTransport_ClosesIdleConnections: the transport closes idle connections when it is closed, and
// when they reach their maximum age.
func TestTransport_ClosesIdleConnections(t *testing.T) {
	for age, end := range map[time.Duration]func(*renewingTransport){
		time.Hour: func(r *renewingTransport) { r.CloseIdleConnections() },
		1:         func(r *renewingTransport) { r.current() },
	} {
		closed := make(chan struct{}, 1)
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- struct{}{}
			}
		}
		server.Start()
		r := &renewingTransport{age: age, fresh: func() *http.Transport { return newTransport(ClientConfig{PerPeer: 1}) }}
		answer, err := r.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Error(err)
		}
		answer.Body.Close()
		end(r)
		<-closed
		server.Close()
	}
}

func TestNewServer_Defaults(t *testing.T) {
	s := NewServer(ServerConfig{})
	if got := s.cfg; got.Reads != defaultReads || got.DrainTime != defaultDrainTime || got.MostAge != mostAge || got.Connections <= 0 {
		t.Errorf("got %d reads, %v to drain, connections of %v and %d of them, want the defaults", got.Reads, got.DrainTime, got.MostAge, got.Connections)
	}
	s = NewServer(ServerConfig{Reads: 1, DrainTime: 2, MostAge: 3, Connections: 4})
	if got := s.cfg; got.Reads != 1 || got.DrainTime != 2 || got.MostAge != 3 || got.Connections != 4 {
		t.Errorf("got %d reads, %v to drain, connections of %v and %d of them, want 1, 2 ns, 3 ns and 4", got.Reads, got.DrainTime, got.MostAge, got.Connections)
	}
}
