package s3backend

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/objstore"
)

// TestBreaker fails for a while: then nothing but one probe per interval passes, and the first
// success lets all through.
func TestBreaker(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var b breaker
		for range breakAfter {
			if err := b.allow(); err != nil {
				t.Fatalf("a short burst opened it: %v", err)
			}
			b.report(failed)
		}
		if b.isOpen() {
			t.Fatal("a burst shorter than the time opened it")
		}
		time.Sleep(breakTime)
		b.report(failed)
		for minute := range 10 {
			if err := b.allow(); !errors.Is(err, objstore.ErrUnavailable) {
				t.Fatalf("probe %d: got %v before its time, want %v", minute, err, objstore.ErrUnavailable)
			}
			time.Sleep(probeInterval)
			if err := b.allow(); err != nil {
				t.Fatalf("probe %d: %v", minute, err)
			}
			if err := b.allow(); err == nil {
				t.Fatalf("probe %d: a second one at the same time", minute)
			}
			b.report(failed)
		}
		time.Sleep(probeInterval)
		if err := b.allow(); err != nil {
			t.Fatal(err)
		}
		b.report(healthy)
		if err := b.allow(); err != nil || b.isOpen() {
			t.Errorf("after a success: %v", err)
		}
	})
}

// TestStragglersBringNoSecondProbe lets requests from before the outage end while a probe is under way.
func TestStragglersBringNoSecondProbe(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := breaker{open: true}
		if err := b.allow(); err != nil {
			t.Fatal(err)
		}
		b.report(unclear)
		if err := b.allow(); !errors.Is(err, objstore.ErrUnavailable) {
			t.Errorf("got %v, want %v until the interval is over", err, objstore.ErrUnavailable)
		}
		time.Sleep(probeInterval)
		if err := b.allow(); err != nil {
			t.Errorf("after the interval: %v", err)
		}
	})
}

// TestBudget retries everything for a minute: beyond ten a second, a tenth is paid.
func TestBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const perSecond, seconds = 1000, 60
		b, spent := newBudget(), 0
		for range perSecond * seconds {
			b.earn()
			if b.spend() {
				spent++
			}
			time.Sleep(time.Second / perSecond)
		}
		if most := perSecond*seconds/10 + 10*(seconds+1) + 1; spent > most || spent < most*9/10 {
			t.Errorf("got %d retries, want nearly %d and no more", spent, most)
		}
	})
}

// idle reports whether all places of a limiter are free, as many as it allows and no more.
func idle(l *limiter) bool {
	n := int64(l.current())
	ok := l.places.TryAcquire(n)
	if ok {
		ok = !l.try()
		l.places.Release(n)
	}
	return ok
}

func TestLimiter(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLimiter(8)
		time.Sleep(cutInterval)
		l.slower()
		l.slower() // at once with the first: one cut
		if got := l.current(); got != 4 {
			t.Fatalf("got %d, want 4", got)
		}
		if !idle(l) {
			t.Fatal("4 are allowed, but not 4 are free")
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		busy, most := 0, 0
		for range 40 {
			wg.Go(func() {
				if err := l.acquire(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				busy++
				most = max(most, busy)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				busy--
				mu.Unlock()
				l.release()
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		synctest.Wait()
		if err := l.acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		wg.Wait()
		if most != 4 {
			t.Errorf("got %d at once, want 4", most)
		}
		for range 1000 {
			l.faster()
		}
		if got := l.current(); got != 8 {
			t.Errorf("after recovery: got %d, want 8", got)
		}
		if !idle(l) {
			t.Error("after recovery: a place is missing")
		}
	})
}
