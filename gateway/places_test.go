package gateway

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
)

// TestPlacesAreBounded takes all places, fills the queue for them, and leaves again.
func TestPlacesAreBounded(t *testing.T) {
	p := newPlaces(planningPlaces())
	var leaves []func()
	for range 2 * runtime.GOMAXPROCS(0) {
		leave, err := p.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := p.take(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v for one more whose client is gone, want %v", err, context.Canceled)
	}
	p.waiting.Store(mostWaiting * int64(cap(p.free)))
	var refused *problem
	if _, err := p.take(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || !refused.Retryable {
		t.Errorf("got %v where too many wait, want 503, to be tried again", err)
	}
	p.waiting.Store(0)
	for _, leave := range leaves {
		leave()
	}
	leave, err := p.take(gone)
	if err != nil {
		t.Fatalf("got %v once all places are free, want one", err)
	}
	leave()
}
