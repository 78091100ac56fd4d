package admission

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// TestPlacesAreBounded takes all places, fills the queue for them, and releases all of them.
func TestPlacesAreBounded(t *testing.T) {
	p := NewPlaces(PlanningPlaces())
	var leaves []func()
	for range 2 * runtime.GOMAXPROCS(0) {
		leave, err := p.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := p.Take(gone); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v for one more whose client is gone, want %v", err, context.Canceled)
	}
	p.waiting.Store(mostWaiting*int64(cap(p.free)) - 1)
	if _, err := p.Take(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for the last one that may wait, want %v", err, context.Canceled)
	}
	p.waiting.Store(mostWaiting * int64(cap(p.free)))
	if _, err := p.Take(t.Context()); !errors.Is(err, ErrCrowded) {
		t.Errorf("got %v where too many wait, want %v", err, ErrCrowded)
	}
	p.waiting.Store(0)
	for _, leave := range leaves {
		leave()
	}
	leave, err := p.Take(gone)
	if err != nil {
		t.Fatalf("got %v once all places are free, want one", err)
	}
	leave()
}
