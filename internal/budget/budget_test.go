package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/testing/bubble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBudgetAgainstModel runs random programs, and compares the budget with a plain sum.
func TestBudgetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(0, 100).Draw(t, "total")
		b := New(total, time.Nanosecond)
		held := map[*Reservation]int64{}
		var sum, peak int64
		pick := func(t *rapid.T) *Reservation {
			var rs []*Reservation
			for r := range held {
				rs = append(rs, r)
			}
			if len(rs) == 0 {
				t.Skip("nothing held")
			}
			best := rs[0]
			for _, r := range rs {
				if held[r] > held[best] {
					best = r
				}
			}
			return best
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve": func(t *rapid.T) {
				n := rapid.Int64Range(0, 120).Draw(t, "n")
				r, err := b.Reserve(context.Background(), n)
				want := error(nil)
				switch {
				case n > total:
					want = ErrTooLarge
				case sum+n > total:
					want = ErrOverloaded
				}
				if !errors.Is(err, want) {
					t.Fatalf("reserve %d with %d of %d in use: got %v, want %v", n, sum, total, err, want)
				}
				if err == nil {
					held[r] = n
					sum += n
					peak = max(peak, sum)
				}
			},
			"try": func(t *rapid.T) {
				n := rapid.Int64Range(0, 120).Draw(t, "n")
				r, ok := b.TryReserve(n)
				if want := sum+n <= total; ok != want {
					t.Fatalf("try %d with %d of %d in use: got %v, want %v", n, sum, total, ok, want)
				}
				if ok {
					held[r] = n
					sum += n
					peak = max(peak, sum)
				}
			},
			"shrink": func(t *rapid.T) {
				r := pick(t)
				n := rapid.Int64Range(0, 120).Draw(t, "n")
				r.Shrink(n)
				sum -= held[r] - min(n, held[r])
				held[r] = min(n, held[r])
			},
			"release twice": func(t *rapid.T) {
				r := pick(t)
				r.Release()
				r.Release()
				sum -= held[r]
				delete(held, r)
			},
			"": func(t *rapid.T) {
				if got := b.InUse(); got != sum {
					t.Fatalf("got %d in use, want %d", got, sum)
				}
				if got := b.Peak(); got != peak {
					t.Fatalf("got a peak of %d, want %d", got, peak)
				}
			},
		})
	})
}

func TestReserve_ReclaimsBeforeWaiting(t *testing.T) {
	b := New(100, time.Second)
	cached, _ := b.TryReserve(80)
	asked := int64(0)
	b.SetReclaim(func(n int64) int64 {
		asked = n
		cached.Shrink(cached.Size() - n)
		return n
	}, cached.Size)
	if got := b.Pinned(); got != 0 {
		t.Errorf("got %d bytes pinned by a cache, want 0", got)
	}
	r, err := b.Reserve(t.Context(), 50)
	if err != nil {
		t.Fatal(err)
	}
	if asked != 30 || b.InUse() != 100 {
		t.Errorf("got %d asked for and %d in use, want 30 and 100", asked, b.InUse())
	}
	if got := b.Pinned(); got != 50 {
		t.Errorf("got %d bytes pinned, want 50", got)
	}
	r.Release()
	cached.Release()
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d in use, want 0", got)
	}
}

// TestReserve_ReclaimsOnlyIfEnough: a cache keeps its bytes if giving them up would not be enough.
// It gives them up as soon as they are.
func TestReserve_ReclaimsOnlyIfEnough(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(100, time.Second)
		cached, _ := b.TryReserve(40)
		held, _ := b.TryReserve(50)
		b.SetReclaim(func(n int64) int64 {
			before := cached.Size()
			cached.Shrink(before - n)
			return before - cached.Size()
		}, cached.Size)
		if _, err := b.Reserve(t.Context(), 60); !errors.Is(err, ErrOverloaded) || cached.Size() != 40 {
			t.Errorf("got %v and %d bytes left in the cache, want %v and 40", err, cached.Size(), ErrOverloaded)
		}
		served, wait := waiting(t, b, 0, 60)
		held.Shrink(40)
		wait()
		if got := *served; got[0] != 0 || cached.Size() != 0 {
			t.Errorf("got %v served and %d bytes left in the cache, want [0] and 0", got, cached.Size())
		}
	})
}

// waiting starts reservations of the given sizes, one after another, and returns the order in which
// they are served.
func waiting(t *testing.T, b *Budget, apart time.Duration, sizes ...int64) (served *[]int, wait func()) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	served = new([]int)
	for i, n := range sizes {
		wg.Go(func() {
			r, err := b.Reserve(t.Context(), n)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				*served = append(*served, -i-1)
				return
			}
			*served = append(*served, i)
			r.Release()
		})
		synctest.Wait()
		if i < len(sizes)-1 {
			time.Sleep(apart) // advances the bubble's clock
		}
	}
	return served, wg.Wait
}

func TestTheNewestWaiterIsServedFirst(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, time.Second)
		all, _ := b.TryReserve(10)
		served, wait := waiting(t, b, time.Millisecond, 10, 10, 10)
		all.Release()
		wait()
		if got := *served; got[0] != 2 || got[1] != 1 || got[2] != 0 {
			t.Errorf("got %v, want [2 1 0]", got)
		}
	})
}

func TestReserve_ServesTheOldestAfterHalfTheWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, time.Second)
		one, _ := b.TryReserve(5)
		two, _ := b.TryReserve(5)
		served, wait := waiting(t, b, 600*time.Millisecond, 10, 5)
		one.Release() // enough for the second reservation, but the first has waited for 600 ms
		synctest.Wait()
		if got := len(*served); got != 0 {
			t.Errorf("got %v served, want none", *served)
		}
		if _, ok := b.TryReserve(1); ok {
			t.Error("a new reservation took bytes that others wait for")
		}
		two.Release()
		wait()
		if got := *served; got[0] != 0 || got[1] != 1 {
			t.Errorf("got %v, want [0 1]", got)
		}
	})
}

// TestReserveOr_AsksHaveAtItsTurn: when it is a waiting caller's turn, have is called first. If
// have returns true, nothing is reserved.
func TestReserveOr_AsksHaveAtItsTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, time.Second)
		all, _ := b.TryReserve(10)
		found := false
		done := make(chan error, 1)
		go func() {
			r, err := b.ReserveOr(t.Context(), 5, func() bool { return found })
			if r != nil {
				t.Error("got a reservation as well")
			}
			done <- err
		}()
		synctest.Wait()
		found = true
		b.Nudge()
		if err := <-done; err != nil || b.InUse() != 10 || b.Waiting() != 0 {
			t.Errorf("got %v with %d bytes in use, want nothing reserved", err, b.InUse())
		}
		all.Release()
	})
}

// TestReservationsJoinAndSplit: bytes move between reservations without becoming free meanwhile.
func TestReservationsJoinAndSplit(t *testing.T) {
	b := New(10, time.Second)
	one, _ := b.TryReserve(4)
	two, _ := b.TryReserve(6)
	one.Join(two)
	three := one.Split(7)
	four := one.Split(9)
	for i, want := range map[int]int64{0: 0, 1: 0, 2: 7, 3: 3} {
		if got := []*Reservation{one, two, three, four}[i].Size(); got != want {
			t.Errorf("reservation %d: got %d bytes, want %d", i+1, got, want)
		}
	}
	one.Release()
	two.Release()
	if got := b.InUse(); got != 10 {
		t.Errorf("got %d bytes in use, want 10", got)
	}
	three.Release()
	four.Release()
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d bytes in use, want none", got)
	}
}

func TestReserve_WaitEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, 2*time.Second)
		all, _ := b.TryReserve(10)
		start := time.Now()
		if _, err := b.Reserve(t.Context(), 1); !errors.Is(err, ErrOverloaded) {
			t.Errorf("got %v, want %v", err, ErrOverloaded)
		}
		if got, want := time.Since(start), 2*time.Second; got != want {
			t.Errorf("waited %v, want %v", got, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Reserve(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		if got := b.Waiting(); got != 0 {
			t.Errorf("got %d waiting, want 0", got)
		}
		if got := b.Refused(); got != 1 { // the other reservation ended because of its context
			t.Errorf("got %d refused, want 1", got)
		}
		all.Release()
	})
}

func TestNew_WaitsForTheDefaultTime(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: DefaultWait, -1: DefaultWait, 1: 1} {
		if got := New(10, given).maxWait; got != want {
			t.Errorf("New(10, %v): got a wait of %v, want %v", given, got, want)
		}
	}
}

// TestSetFreed_CalledWhileNoneWaits: the function is called for each release while no reservation
// waits. Only the function that was set last is called.
func TestSetFreed_CalledWhileNoneWaits(t *testing.T) {
	b := New(10, time.Second)
	var calls [2]int
	for i := range calls {
		b.SetFreed(func() { calls[i]++ })
	}
	r, _ := b.TryReserve(10)
	r.Release()
	if calls != [2]int{0, 1} {
		t.Errorf("got %d calls, want one of the second function", calls)
	}
}

func TestTrySwap_PassesReservationsThatWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, time.Second)
		large, _ := b.TryReserve(7)
		served, wait := waiting(t, b, 0, 10)
		if _, ok := b.TryReserve(3); ok {
			t.Error("a try: got bytes that a reservation waits for")
		}
		if _, ok := b.TrySwap(4); ok {
			t.Error("a swap: got more bytes than are free")
		}
		small, ok := b.TrySwap(3)
		if !ok {
			t.Fatal("a swap: got none of the free bytes")
		}
		large.Release()
		small.Release()
		wait()
		if got := *served; got[0] != 0 || b.InUse() != 0 {
			t.Errorf("got %v served and %d bytes in use, want the reservation that waited, and 0", got, b.InUse())
		}
	})
}

// TestTake_ReclaimsUntilNothingComes: reclaim is called again if it releases fewer bytes than
// requested, and no more after it releases none.
func TestTake_ReclaimsUntilNothingComes(t *testing.T) {
	for _, c := range []struct {
		name string
		each int64 // released by each call
		want bool
	}{{"in parts", 2, true}, {"nothing", 0, false}} {
		b := New(10, time.Second)
		cached, _ := b.TryReserve(10)
		calls := 0
		b.SetReclaim(func(int64) int64 {
			calls++
			cached.Shrink(cached.Size() - c.each)
			return c.each
		}, cached.Size)
		_, ok := b.ReserveNow(6)
		if ok != c.want || calls != map[bool]int{true: 3, false: 1}[c.want] {
			t.Errorf("%s: got %v after %d calls", c.name, ok, calls)
		}
	}
}

func TestFits_LeavesWhatTheWaiterCanTake(t *testing.T) {
	b := New(10, time.Second)
	b.inUse = 4
	for _, c := range []struct {
		n, first int64
		want     bool
	}{{1, 5, true}, {2, 5, false}, {1, 6, false}, {1, 7, true}, {3, 7, true}, {4, 7, false}} {
		if got := b.fits(c.n, &waiter{n: c.first}); got != c.want {
			t.Errorf("%d bytes in addition to %d with 6 free: got %v, want %v", c.n, c.first, got, c.want)
		}
	}
}

// TestWakeNext_GoesFromTheNewestToTheOldest: a reservation that cannot be served passes the turn to
// the one that arrived before it.
func TestWakeNext_GoesFromTheNewestToTheOldest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := New(10, time.Second)
		most, _ := b.TryReserve(4)
		least, _ := b.TryReserve(6)
		served, wait := waiting(t, b, time.Millisecond, 4, 4, 10)
		most.Release()
		synctest.Wait()
		least.Release()
		wait()
		if got := *served; got[0] != 1 {
			t.Errorf("got %v served, want the second first: the third is too large", got)
		}
	})
}
