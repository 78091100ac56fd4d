package s3backend

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-data/millrace/internal/testing/tracingtest"
)

// TestTraceShowsEachAttempt makes a read whose first attempt is rejected and whose second attempt
// is late. The reader's trace contains three store requests. Each of them sent its span to the
// store.
func TestTraceShowsEachAttempt(t *testing.T) {
	s := &scriptedStore{data: sample(100), every: usual}
	var mu sync.Mutex
	var named []string
	spanOf := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
			named = append(named, parts[2])
		}
		if strings.Contains(r.Header.Get("Authorization"), "traceparent") {
			t.Error("the traceparent is signed: a proxy that writes its own would break the signature")
		}
	}
	handler := func(w http.ResponseWriter, r *http.Request) { spanOf(r); s.ServeHTTP(w, r) }
	policy := quick()
	policy.base, policy.top = 0, 0
	inBubble(t, policy, handler, func(t *testing.T, b *Backend) {
		learned(t, b)
		b.cfg.Traceparent = true
		s.next(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, s.never)
		recorder, tracer := tracingtest.New()
		ctx, root := tracer.Root(t.Context(), "test")
		if err := b.ReadRange(ctx, ref, 7, make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
		root.End()
		read, attempts, hedges := recorder.Named("store read"), recorder.Named("store attempt"), recorder.Named("store hedge")
		if len(read) != 1 || len(attempts) != 2 || len(hedges) != 1 {
			t.Fatalf("got %d reads, %d attempts and %d second requests, want 1, 2 and 1", len(read), len(attempts), len(hedges))
		}
		if read[0].Failed != "" || !strings.Contains(attempts[0].Failed, "503") || attempts[1].Failed != "" || attempts[1].Said["millrace.store.attempt"] != "1" {
			t.Errorf("got failures %q, %q and %q, and number %s; want 503 of the first attempt alone", read[0].Failed, attempts[0].Failed, attempts[1].Failed, attempts[1].Said["millrace.store.attempt"])
		}
		if attempts[0].Parent != read[0].ID || attempts[1].Parent != read[0].ID || hedges[0].Parent != attempts[1].ID {
			t.Error("the attempts are not below the read, or the second request is not below its attempt")
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{attempts[0].ID, attempts[1].ID, hedges[0].ID}; !slices.Equal(named, want) {
			t.Errorf("the store was told of spans %v, want %v", named, want)
		}
	})
}
