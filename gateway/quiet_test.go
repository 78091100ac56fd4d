package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestQuietCountsEveryRequest: a probe counts as use of the gateway, and the gateway is not quiet
// during a request.
func TestQuietCountsEveryRequest(t *testing.T) {
	r := newRig(t, 20, 800, nil)
	bubble.Test(t, func(t *testing.T) {
		get := func(path string) {
			r.gateway.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		}
		quiet := func(when string, want bool) {
			t.Helper()
			if got := r.gateway.Quiet(time.Second); got != want {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		quiet("nobody ever came", true)
		leave := make(chan struct{})
		r.source.before = func(context.Context) error { <-leave; return nil }
		var reader sync.WaitGroup
		reader.Go(func() { get("/epoch/0/batch/0") })
		synctest.Wait()
		time.Sleep(10 * time.Second)
		quiet("a request is under way", false)
		close(leave)
		reader.Wait()
		quiet("just after the answer", false)
		time.Sleep(999 * time.Millisecond)
		quiet("0.999 s after the answer", false)
		time.Sleep(time.Millisecond)
		quiet("a second after the answer", true)
		get("/readyz")
		quiet("after a probe", false)
	})
}
