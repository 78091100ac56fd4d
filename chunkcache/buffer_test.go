package chunkcache

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/internal/budget"
)

// A buffer's memory is reserved while it is open, serves the next one, and yields to chunks when it is free.
func TestBuffersShareTheBudget(t *testing.T) {
	c, b := newCache(t, 1<<20)
	first, err := c.Buffer(t.Context(), 700<<10)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(first.Bytes()); got != 700<<10 {
		t.Errorf("got %d bytes, want %d", got, 700<<10)
	}
	held := b.InUse()
	if held < 700<<10 {
		t.Errorf("got %d bytes reserved, want %d at least", held, 700<<10)
	}
	first.Close()
	first.Close()
	again, err := c.Buffer(t.Context(), 690<<10)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.InUse(); got != held {
		t.Errorf("got %d bytes reserved, want those of the slot used again, %d", got, held)
	}
	again.Close()
	if got := c.Reclaim(1, false); got != held {
		t.Errorf("got %d bytes reclaimed, want %d", got, held)
	}
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d bytes left, want 0", got)
	}
	all, err := c.Buffer(t.Context(), b.Total())
	if err != nil {
		t.Fatal(err)
	}
	all.Close()
	if _, err := c.Buffer(t.Context(), b.Total()+1); !errors.Is(err, budget.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, budget.ErrTooLarge)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Buffer(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d bytes left, want 0", got)
	}
}
