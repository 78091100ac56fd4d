package s3backend

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestBreaker lets requests fail for a while. Then only one probe per interval is allowed, and the
// first success allows all requests again.
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

// TestStragglersBringNoSecondProbe checks that requests from before the outage, which end while a
// probe is running, allow no second probe.
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

// TestWait_StaysWithinItsBounds draws pauses before more and more retries. Their bound doubles
// until it reaches the maximum.
func TestWait_StaysWithinItsBounds(t *testing.T) {
	l := defaultRetryPolicy()
	for _, throttled := range []bool{false, true} {
		most := l.base
		if throttled {
			most *= 10
		}
		top := max(l.top, most)
		for n := 1; n <= 200; n++ {
			longest := time.Duration(0)
			for range 200 {
				got := l.wait(n, throttled)
				if got < 0 || got > most {
					t.Fatalf("retry %d: waits %v, want at most %v", n, got, most)
				}
				longest = max(longest, got)
			}
			if longest < most/2 { // happens by chance once in 2^200
				t.Errorf("retry %d: waits at most %v of %v", n, longest, most)
			}
			most = min(2*most, top)
		}
	}
}

// TestRetryBudget retries every request for a minute. Retries are limited to a tenth of the
// requests, plus ten per second.
func TestRetryBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const perSecond, seconds = 1000, 60
		b, spent := newRetryBudget(), 0
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

// free returns the number of free places of a limiter.
func free(l *concurrencyLimit) int64 {
	n := int64(0)
	for l.try() {
		n++
	}
	l.places.Release(n)
	return n
}

// idle reports whether exactly as many places of a limiter are free as it allows.
func idle(l *concurrencyLimit) bool { return free(l) == int64(l.current()) }

func TestConcurrencyLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newConcurrencyLimit(8)
		time.Sleep(cutInterval)
		l.slower()
		l.slower() // in the same interval as the first call, so the limit is halved only once
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
