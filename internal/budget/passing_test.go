package budget

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// pending is a reservation that may still be waiting.
type pending struct {
	n   int64
	end atomic.Pointer[outcome] // nil: the reservation is waiting
}

type outcome struct {
	got *Reservation
	err error
}

func (p *pending) done() bool { return p.end.Load() != nil }

// got returns the reservation, or nil.
func (p *pending) got() *Reservation {
	if o := p.end.Load(); o != nil {
		return o.got
	}
	return nil
}

func (p *pending) err() error {
	if o := p.end.Load(); o != nil {
		return o.err
	}
	return nil
}

// begin starts a reservation and lets it run until it has ended or waits.
func begin(ctx context.Context, b *Budget, n int64) *pending {
	p := &pending{n: n}
	go func() {
		r, err := b.Reserve(ctx, n)
		p.end.Store(&outcome{r, err})
	}()
	synctest.Wait()
	return p
}

// check runs rapid.Check in a bubble, where testing.T has no deadline.
func check(t *testing.T, property func(*rapid.T)) {
	bubble.Test(t, func(t *testing.T) { rapid.Check(struct{ rapid.TB }{t}, property) })
}

// TestBudget_TriesFitBesideTheWaiter runs random programs, and compares the budget with a model. A
// try is granted if its bytes are free and it may pass the waiter. All tries that passed the waiter
// hold at most as many bytes as the waiter waits for, and together with these at most the total.
func TestBudget_TriesFitBesideTheWaiter(t *testing.T) {
	check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 100).Draw(t, "total")
		size := rapid.Int64Range(0, total/5+1)
		b := New(total, time.Second)
		ctx, leave := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer leave()
		var before, passed []*Reservation
		var joined int64 // bytes of joined reservations that have passed
		sum := func(rs []*Reservation) (n int64) {
			for _, r := range rs {
				n += r.Size()
			}
			return n
		}
		some := func(t *rapid.T) *Reservation {
			all := append(append([]*Reservation{}, before...), passed...)
			if len(all) == 0 {
				t.Skip("nothing is held")
			}
			return rapid.SampledFrom(all).Draw(t, "reservation")
		}
		var w *pending
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				if w != nil {
					t.Skip("there is one already")
				}
				w = begin(ctx, b, rapid.Int64Range(total/2, total).Draw(t, "n"))
			},
			"try": func(t *rapid.T) {
				n := size.Draw(t, "n")
				free := total - sum(before) - sum(passed)
				want := n <= free
				if w != nil {
					want = want && joined+sum(passed)+n <= min(w.n, total-w.n)
				}
				try := b.TryReserve
				if rapid.Bool().Draw(t, "reclaims") {
					try = b.ReserveNow
				}
				r, ok := try(n)
				if ok != want {
					t.Fatalf("try %d with %d of %d free, %d of them passed a waiter: got %v, want %v", n, free, total, sum(passed), ok, want)
				}
				switch {
				case ok && w != nil:
					passed = append(passed, r)
				case ok:
					before = append(before, r)
				}
			},
			"shrink": func(t *rapid.T) { some(t).Shrink(size.Draw(t, "n")) },
			"split": func(t *rapid.T) {
				if len(passed) > 0 {
					passed = append(passed, passed[0].Split(size.Draw(t, "n")))
				}
			},
			"join": func(*rapid.T) {
				if len(passed) > 0 && len(before) > 0 {
					joined += passed[0].Size()
					before[0].Join(passed[0])
					passed = passed[1:]
				}
			},
			"": func(t *rapid.T) {
				synctest.Wait()
				if w != nil && w.done() {
					before, passed, w = append(append(before, passed...), w.got()), nil, nil
					joined = 0
				}
				if free := total - b.InUse(); w != nil && w.n <= free {
					t.Fatalf("a reservation of %d bytes is waiting while %d are free", w.n, free)
				}
			},
		})
		for _, r := range before {
			r.Release()
		}
		synctest.Wait()
		if w != nil && !w.done() {
			t.Errorf("a reservation of %d of %d bytes waits for tries that hold %d", w.n, total, sum(passed))
		}
	})
}

// TestBudget_ServesTheOldestOnceEarlierBytesAreReleased: once a reservation has waited for half of
// the longest wait, it is served when all bytes then in use are released. Bytes that are granted
// later may be kept.
func TestBudget_ServesTheOldestOnceEarlierBytesAreReleased(t *testing.T) {
	check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 100).Draw(t, "total")
		b := New(total, time.Second)
		ctx, leave := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer leave()
		size := rapid.Int64Range(0, total)
		var all []*pending
		come := func(t *rapid.T) {
			n := size.Draw(t, "n")
			if rapid.Bool().Draw(t, "waits") {
				all = append(all, begin(ctx, b, n))
			} else if r, ok := b.TryReserve(n); ok {
				p := &pending{n: n}
				p.end.Store(&outcome{got: r})
				all = append(all, p)
			}
		}
		for range rapid.IntRange(0, 12).Draw(t, "before") {
			come(t)
		}
		var oldest *pending
		var before []*Reservation
		for _, p := range all {
			switch {
			case p.got() != nil:
				before = append(before, p.got())
			case oldest == nil:
				oldest = p
			}
		}
		time.Sleep(time.Second / 2)
		for range rapid.IntRange(0, 12).Draw(t, "after") {
			come(t)
			if len(before) > 1 && rapid.Bool().Draw(t, "release") {
				before[0].Release()
				before = before[1:]
				synctest.Wait()
			}
		}
		for _, r := range before {
			r.Release()
		}
		synctest.Wait()
		if oldest != nil && oldest.got() == nil {
			t.Errorf("the oldest, of %d of %d bytes, got %v with %d bytes in use, want its bytes", oldest.n, total, oldest.err(), b.InUse())
		}
	})
}

// TestBudget_SmallReservationsPassOneThatWaits: most of a budget is free, and a reservation waits
// for more than that. It stops neither tries nor new reservations that fit in addition to it,
// however long it waits. Larger ones wait.
func TestBudget_SmallReservationsPassOneThatWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, 2*time.Second)
		b.TryReserve(40)
		oldest := begin(t.Context(), b, 70)
		r, ok := b.TryReserve(1)
		if !ok || !r.Passed() {
			t.Fatal("got none of 60 free bytes, want one that passes the waiting reservation")
		}
		if _, ok := b.ReserveNow(30); ok {
			t.Error("got 30 bytes in addition to that byte and to 70 that a reservation waits for, want none of 100")
		}
		r.Release()
		time.Sleep(1100 * time.Millisecond)
		behind := begin(t.Context(), b, 31)
		for _, n := range []int64{20, 10} {
			if p := begin(t.Context(), b, n); p.got() == nil {
				t.Errorf("a new reservation of %d bytes waits for one of 70 with 60 bytes free, want it served", n)
			}
		}
		if behind.got() != nil {
			t.Error("a new reservation of 31 of 100 bytes passed one that waits for 70")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(oldest.err(), ErrOverloaded) || behind.got() != nil {
			t.Errorf("got %v for 70 of 60 free bytes and %v for 31 of 30, want %v and a wait", oldest.err(), behind.got(), ErrOverloaded)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
	})
}

// TestBudget_TriesLeaveWhatTheWaiterIsAboutToTake: enough bytes are free for the waiting
// reservation, which may not have run yet. A try gets only the bytes that are free in addition.
func TestBudget_TriesLeaveWhatTheWaiterIsAboutToTake(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		all, _ := b.TryReserve(100)
		w := begin(t.Context(), b, 60)
		all.Shrink(30)
		if _, ok := b.TryReserve(11); ok {
			t.Error("got 11 of 70 free bytes while a reservation waits for 60, want none")
		}
		if _, ok := b.TryReserve(10); !ok {
			t.Error("got none of 70 free bytes while a reservation waits for 60, want 10")
		}
		synctest.Wait()
		if w.got() == nil {
			t.Error("the reservation waits for bytes that were free")
		}
	})
}

// TestBudget_TriesTakeLittleOfReleasedBytes: in a full budget, bytes that are released piece by
// piece are kept for the waiting reservation. Tries get at most as many bytes as the reservation
// waits for.
func TestBudget_TriesTakeLittleOfReleasedBytes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		all, _ := b.TryReserve(100)
		w := begin(t.Context(), b, 10)
		for i, want := range []bool{true, false} {
			all.Shrink(all.Size() - 9)
			synctest.Wait()
			if _, ok := b.TryReserve(9); ok != want {
				t.Errorf("try %d of 9 bytes past one that waits for 10: got %v, want %v", i+1, ok, want)
			}
		}
		all.Shrink(all.Size() - 1)
		synctest.Wait()
		if w.got() == nil {
			t.Error("the reservation waits for 10 of 10 free bytes")
		}
	})
}

// TestBudget_EachWaiterIsTried: released bytes may not suffice for the reservation whose turn it
// is. Another waiting reservation then gets them, if it may pass.
func TestBudget_EachWaiterIsTried(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		all, _ := b.TryReserve(100)
		large, small, newest := begin(t.Context(), b, 40), begin(t.Context(), b, 10), begin(t.Context(), b, 50)
		all.Shrink(90)
		synctest.Wait()
		if small.got() == nil {
			t.Error("one of 10 bytes waits while 10 are free, since the newest waits for 50")
		}
		time.Sleep(600 * time.Millisecond)
		small = begin(t.Context(), b, 5)
		all.Shrink(80)
		synctest.Wait()
		if small.got() == nil || large.done() || newest.done() {
			t.Errorf("got %v, %v and %v with 10 bytes free, want those of 40 and 50 bytes to wait", small.got(), large.done(), newest.done())
		}
		all.Release()
		synctest.Wait()
		if large.got() == nil || newest.got() != nil {
			t.Errorf("got %v for 40 and %v for 50 of 85 bytes, want the older one served", large.got(), newest.got())
		}
		large.got().Release()
		synctest.Wait()
	})
}

// TestBudget_ReclaimsForTriesThatFit: a try that does not fit in addition to the waiting
// reservation reclaims nothing.
func TestBudget_ReclaimsForTriesThatFit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		b.TryReserve(60)
		cached, _ := b.TryReserve(40)
		b.SetReclaim(func(n int64) int64 {
			before := cached.Size()
			cached.Shrink(before - n)
			return before - cached.Size()
		}, cached.Size)
		begin(t.Context(), b, 70)
		if _, ok := b.ReserveNow(31); ok || cached.Size() != 40 {
			t.Errorf("got %v for 31 bytes in addition to 70 of a waiting reservation, and %d bytes left in the cache; want false and 40", ok, cached.Size())
		}
		if _, ok := b.ReserveNow(30); !ok || cached.Size() != 10 {
			t.Errorf("got %v for 30 bytes in addition to 70 of a waiting reservation, and %d bytes left in the cache; want true and 10", ok, cached.Size())
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

// TestBudget_CountsBytesThatPassedUntilTheyAreReleased: bytes that were split off count too. Joined
// bytes count until the reservation that they passed has ended.
func TestBudget_CountsBytesThatPassedUntilTheyAreReleased(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		all, _ := b.TryReserve(40)
		begin(t.Context(), b, 70)
		fits := func(n int64) bool {
			r, ok := b.TryReserve(n)
			if ok {
				r.Release()
			}
			return ok
		}
		passed, _ := b.TryReserve(30)
		passed.Split(20).Release()
		if !fits(20) || fits(21) {
			t.Errorf("got %v for 20 and %v for 21 bytes in addition to 70 and 10 that have passed, want true and false", fits(20), fits(21))
		}
		passed.Join(all)
		passed.Shrink(40)
		if !fits(20) || fits(21) {
			t.Errorf("got %v for 20 and %v for 21 bytes in addition to 70 and 10 that were joined, want true and false", fits(20), fits(21))
		}
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
