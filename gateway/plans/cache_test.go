package plans

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace-data/millrace/shuffle"
)

var errNoRoom = errors.New("no room")

func noReserve(context.Context, int64) (func(), error) { return nil, errNoRoom }

// TestPlansInUseAreOnTheBooks uses more concurrent plans than fit within the limit.
func TestPlansInUseAreOnTheBooks(t *testing.T) {
	reserved, room := int64(0), int64(200)
	p := newCache(250, func(_ context.Context, n int64) (func(), error) {
		if reserved+n > room {
			return nil, errNoRoom
		}
		reserved += n
		return func() { reserved -= n }, nil
	})
	key := func(seed uint64) planKey { return planKey{params: shuffle.Params{Seed: seed}} }
	check := func(what string, bytes, more int64) {
		t.Helper()
		if p.size() != bytes || reserved != more {
			t.Errorf("%s: got %d bytes within the limit and %d reserved, want %d and %d", what, p.size(), reserved, bytes, more)
		}
	}
	var used []*entry
	for seed := range uint64(4) {
		e, err := p.acquire(t.Context(), key(seed), 100)
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, e)
	}
	check("four in use", 200, 200)
	if _, err := p.acquire(t.Context(), key(4), 100); !errors.Is(err, errNoRoom) {
		t.Errorf("a fifth: got %v, want %v", err, errNoRoom)
	}
	again, err := p.acquire(t.Context(), key(3), 100)
	if err != nil || again != used[3] {
		t.Errorf("got another entry or %v for what is in use, want the same", err)
	}
	p.release(again)
	check("one used twice", 200, 200)
	p.release(used[3])
	check("one beyond the limit left", 200, 100)
	p.release(used[0])
	p.release(used[2])
	check("one within the limit left, then one beyond it", 200, 0)
	kept, err := p.acquire(t.Context(), key(2), 100)
	if err != nil || kept != used[2] {
		t.Errorf("got another entry or %v, want the one used last to be kept", err)
	}
	p.forget(kept)
	p.release(kept)
	check("one forgotten in use", 100, 0)
	p.release(used[1])
	for seed := range uint64(10) {
		e, err := p.acquire(t.Context(), key(seed), 100)
		if err != nil {
			t.Fatal(err)
		}
		p.release(e)
	}
	check("ten, one after the other", 200, 0)
}

func TestPlanThatPanickedIsPreparedAnew(t *testing.T) {
	p := newCache(1<<20, noReserve)
	key := planKey{params: shuffle.Params{Seed: 1}}
	broken, _ := p.acquire(t.Context(), key, 100)
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("got panic %v, want boom", v)
			}
		}()
		_ = p.prepare(t.Context(), broken, func() { panic("boom") })
	}()
	if err := p.prepare(t.Context(), broken, func() { t.Error("an entry was prepared twice") }); !errors.Is(err, errUnprepared) {
		t.Errorf("got %v for those that waited, want %v", err, errUnprepared)
	}
	if got := p.size(); got != 0 {
		t.Errorf("got %d bytes held, want 0", got)
	}
	p.release(broken)
	next, _ := p.acquire(t.Context(), key, 100)
	if next == broken {
		t.Fatal("got the broken entry again, want a new one")
	}
	ran := false
	err := p.prepare(t.Context(), next, func() { ran, next.err = true, nil })
	if !ran || err != nil || p.size() != 100 {
		t.Errorf("got prepared %v, error %v, %d bytes, want true, nil and 100", ran, err, p.size())
	}
}

// TestWaitingForAPlanEndsWithItsContext cancels a request that waits while another one prepares the
// plan.
func TestWaitingForAPlanEndsWithItsContext(t *testing.T) {
	p := newCache(1<<20, noReserve)
	e, _ := p.acquire(t.Context(), planKey{params: shuffle.Params{Seed: 1}}, 100)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- p.prepare(t.Context(), e, func() {
			close(begun)
			<-end
			e.err = nil
		})
	}()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.prepare(ctx, e, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v for a request that has ended, want %v", err, context.Canceled)
	}
	close(end)
	if err := <-ended; err != nil {
		t.Errorf("got %v for the one that prepares, want nil", err)
	}
	if err := p.prepare(t.Context(), e, nil); err != nil {
		t.Errorf("got %v for one that comes later, want nil", err)
	}
}
