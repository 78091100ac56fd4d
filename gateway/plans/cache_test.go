package plans

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

var errNoRoom = errors.New("no room")

func noReserve(context.Context, int64) (Reservation, error) { return nil, errNoRoom }

// seeds returns a cache of 100 bytes per value, in which the value of a key is its seed.
func seeds(reserve func(context.Context, int64) (Reservation, error)) *cache[uint64] {
	size := func(key) int64 { return 100 }
	open := func(_ context.Context, k key) (uint64, error) { return k.params.Seed, nil }
	return newCache("seed", size, open, reserve)
}

func seed(n uint64) key { return key{params: shuffle.Params{Seed: n}} }

// TestPlansInUseAreOnTheBooks uses more concurrent plans than fit within the limit.
func TestPlansInUseAreOnTheBooks(t *testing.T) {
	reserved, room := int64(0), int64(200)
	p := seeds(func(_ context.Context, n int64) (Reservation, error) {
		if reserved+n > room {
			return nil, errNoRoom
		}
		reserved += n
		return requestMemory{func() { reserved -= n }}, nil
	})
	p.allow(250)
	check := func(what string, bytes, more int64) {
		t.Helper()
		if _, got := p.use(); got != bytes || reserved != more {
			t.Errorf("%s: got %d bytes within the limit and %d reserved, want %d and %d", what, got, reserved, bytes, more)
		}
	}
	acquire := func(n uint64) (leave func()) {
		t.Helper()
		var held Holds
		v, err := p.acquire(t.Context(), &held, seed(n))
		if err != nil || v != n {
			t.Fatalf("got %d, %v, want %d", v, err, n)
		}
		return held.Keep()
	}
	var leave []func()
	for n := range uint64(4) {
		leave = append(leave, acquire(n))
	}
	check("four in use", 200, 200)
	if _, err := p.acquire(t.Context(), new(Holds), seed(4)); !errors.Is(err, errNoRoom) {
		t.Errorf("a fifth: got %v, want %v", err, errNoRoom)
	}
	acquire(3)()
	check("one used twice", 200, 200)
	leave[3]()
	check("one beyond the limit left", 200, 100)
	leave[0]()
	leave[2]()
	check("one within the limit left, then one beyond it", 200, 0)
	kept := acquire(2)
	if len(p.byKey) != 2 {
		t.Errorf("got %d values, want the one used last to be kept", len(p.byKey))
	}
	if err := p.forget(nil); err != nil {
		t.Error(err)
	}
	kept()
	leave[1]()
	check("all forgotten in use", 0, 0)
	for n := range uint64(10) {
		acquire(n)()
	}
	check("ten, one after the other", 200, 0)
}

// TestCache_OpensAgainAfterPanic checks that a panic becomes an error, and that the next request
// opens the value again.
func TestCache_OpensAgainAfterPanic(t *testing.T) {
	p := seeds(noReserve)
	p.allow(1 << 20)
	open := p.open
	p.open = func(context.Context, key) (uint64, error) { panic("boom") }
	if _, err := p.acquire(t.Context(), new(Holds), seed(1)); err == nil || !strings.Contains(err.Error(), "panic: boom") {
		t.Errorf("got %v, want the panic", err)
	}
	if _, got := p.use(); got != 0 {
		t.Errorf("got %d bytes, want 0", got)
	}
	p.open = open
	v, err := p.acquire(t.Context(), new(Holds), seed(1))
	if _, got := p.use(); v != 1 || err != nil || got != 100 {
		t.Fatalf("got %d, %v, %d bytes, want 1 and 100 bytes", v, err, got)
	}
}

// TestWaitingForAPlanEndsWithItsContext cancels a request that waits while another one prepares the
// plan.
func TestWaitingForAPlanEndsWithItsContext(t *testing.T) {
	p := seeds(noReserve)
	p.allow(1 << 20)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	p.open = func(context.Context, key) (uint64, error) {
		close(begun)
		<-end
		return 1, nil
	}
	go func() {
		_, err := p.acquire(t.Context(), new(Holds), seed(1))
		ended <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.acquire(ctx, new(Holds), seed(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for a request that has ended, want %v", err, context.Canceled)
	}
	close(end)
	if err := <-ended; err != nil {
		t.Errorf("got %v for the one that prepares, want nil", err)
	}
	if _, err := p.acquire(t.Context(), new(Holds), seed(1)); err != nil {
		t.Errorf("got %v for one that comes later, want nil", err)
	}
}
