package chunkcache

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// unmapped is a length that exceeds the address space of any machine.
const unmapped = 1 << 50

// If the system maps no more memory, each method that allocates memory reports that, and keeps
// nothing of the budget reserved.
func TestCache_ReturnsTheBudgetWhereNoMemoryCanBeMapped(t *testing.T) {
	const large = 2 * heapClass
	c, b := newCache(t, 1<<20)
	c.arena.length = unmapped
	if _, err := c.Buffer(t.Context(), large); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("buffer: got %v, want %v", err, unix.ENOMEM)
	}
	if _, ok := c.TryBuffer(large); ok {
		t.Error("got a buffer without memory")
	}
	if c.Populate(large) {
		t.Error("populate: got room for another, want none")
	}
	if used, n := b.InUse(), c.arena.used; used != 0 || n != 0 {
		t.Errorf("refused: got %d bytes of the budget and %d slots of the arena in use, want none", used, n)
	}
	loaded := false
	_, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: 100, Extra: large}, {Key: 2, Size: large}}, Request[int]{
		Load: func(context.Context, []*Fill[int]) error { loaded = true; return nil },
	}})
	if !errors.Is(err, unix.ENOMEM) || loaded || tableOf(c).Contains(1) || tableOf(c).Contains(2) {
		t.Errorf("load: got %v, called: %v, chunks there: %v and %v; want %v, and neither", err, loaded, tableOf(c).Contains(1), tableOf(c).Contains(2), unix.ENOMEM)
	}
	own, err := c.Buffer(t.Context(), 100) // the heap serves small buffers
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
}

// A piece of the arena belongs to one caller at a time, and is reused after it is freed.
func TestArena_CutsEachByteOnce(t *testing.T) {
	const size = 2 * heapClass
	a := newArena(8 * size)
	seen := map[*byte]bool{}
	var slots []piece
	for i := range 8 {
		p, err := a.cut(size, i%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		b := p.bytes()
		for k := range b {
			b[k] = byte(i + 1)
		}
		slots, seen[&b[0]] = append(slots, p), true
	}
	for i, p := range slots {
		if !bytes.Equal(p.bytes(), bytes.Repeat([]byte{byte(i + 1)}, size)) {
			t.Errorf("slot %d was written through another one", i)
		}
	}
	a.close()
	if len(a.regions) != 1 {
		t.Fatalf("got %d mappings with slots in use, want the one that they fill", len(a.regions))
	}
	for _, p := range slots {
		a.clear(p)
	}
	again := map[*byte]bool{}
	for range slots {
		p, err := a.cut(size, true)
		if err != nil {
			t.Fatal(err)
		}
		b := p.bytes()
		if !seen[&b[0]] || again[&b[0]] {
			t.Error("got address space that is new, or in use, with cleared slots left")
		}
		again[&b[0]] = true
	}
	larger, err := a.cut(16*size, true)
	if err != nil || len(larger.bytes()) != 16*size {
		t.Errorf("a slot larger than the region: got %d bytes, %v; want %d", len(larger.bytes()), err, 16*size)
	}
	a.clear(larger)
	for b := range again {
		for _, s := range slots {
			if &s.bytes()[0] == b {
				a.clear(s)
			}
		}
	}
	if a.close(); len(a.regions)+a.used != 0 {
		t.Errorf("closed: got %d mappings and %d slots in use; want none", len(a.regions), a.used)
	}
}

// A buffer shrinks only within its slot, and never grows.
func TestBuffer_ShrinksOnlyWherePagesAreFree(t *testing.T) {
	for _, size := range []int64{100, heapClass, 2 * heapClass} {
		c, b := newCache(t, 1<<20)
		own, err := c.Buffer(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		held := b.InUse()
		if own.Cost() != held {
			t.Errorf("%d bytes: got a cost of %d, want the %d of the budget", size, own.Cost(), held)
		}
		for _, n := range []int64{size, size - 1} {
			if own.Shrink(n); b.InUse() != held {
				t.Errorf("%d bytes shrunk to %d: got %d bytes of the budget back, want none", size, n, held-b.InUse())
			}
		}
		own.Shrink(10)
		if size <= heapClass && b.InUse() != held {
			t.Errorf("%d bytes of the heap: got %d bytes of the budget back, want none", size, held-b.InUse())
		}
		own.Close()
		if got := b.InUse() - c.Free(); got != 0 {
			t.Errorf("%d bytes: got %d bytes in use after the buffer is closed, want none", size, got)
		}
	}
}

// A buffer of nearly the whole budget takes all of it. A larger buffer is rejected at once.
func TestBuffer_MayTakeTheWholeBudget(t *testing.T) {
	const total = 1000
	for n := int64(total - entryCost - 100); n <= total; n++ {
		c, b := newCache(t, total)
		own, err := c.Buffer(t.Context(), n)
		if err != nil || int64(len(own.Bytes())) != n || b.InUse() > total {
			t.Fatalf("%d of %d bytes: got %v, %d bytes in use", n, total, err, b.InUse())
		}
		if _, ok := c.TryBuffer(1); ok && b.InUse() > total {
			t.Fatalf("%d of %d bytes: got another buffer too", n, total)
		}
		own.Close()
	}
}

// Memory is populated only while it is free, and only for chunks in mapped slots.
func TestCache_PopulatesFreeMemoryOnly(t *testing.T) {
	const size = 2 * heapClass
	c, b := newCache(t, Cost(size))
	if !c.Populate(100) || b.InUse() != 0 || c.arena.used != 0 {
		t.Errorf("a chunk of the heap: got %d bytes in use, want true and none", b.InUse())
	}
	if !c.Populate(size) || c.Free() != Cost(size) || c.Stats().FreeBytes != Cost(size) {
		t.Errorf("a large chunk: got %d bytes of free slots, want %d", c.Free(), Cost(size))
	}
	if c.Populate(size) || b.InUse() != Cost(size) {
		t.Errorf("no memory is left: got %d bytes in use, want false and %d", b.InUse(), Cost(size))
	}
}

// A request that has already ended starts nothing. A request that ends while it waits for any of
// its chunks leaves nothing leased.
func TestStart_LeavesNothingWhenTheRequestEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		cause := errors.New("the client has gone")
		wants := []Chunk[int]{{Key: 1, Size: 100}, {Key: 2, Size: 100}, {Key: 3, Size: 100}}
		ended, end := context.WithCancelCause(t.Context())
		end(cause)
		if _, err := acquire(ended, c, asking{wants, Request[int]{Load: load}}); !errors.Is(err, cause) || c.Stats().Loads != 0 {
			t.Errorf("ended before: got %v and %d loads, want %v and none", err, c.Stats().Loads, cause)
		}
		for _, stalls := range []int{1, 2, 3} {
			ctx, end := context.WithCancelCause(t.Context())
			got := make(chan error)
			go func() {
				_, err := acquire(ctx, c, asking{wants, Request[int]{Load: func(ctx context.Context, fills []*Fill[int]) error {
					if fills[0].Key() == stalls {
						<-ctx.Done()
						return context.Cause(ctx)
					}
					return load(ctx, fills)
				}}})
				got <- err
			}()
			synctest.Wait()
			end(cause)
			if err := <-got; !errors.Is(err, cause) {
				t.Errorf("ended while chunk %d comes: got %v, want %v", stalls, err, cause)
			}
			synctest.Wait()
			if s := c.Stats(); s.OpenLeases != 0 || s.LoadsActive != 0 || tableOf(c).Contains(stalls) {
				t.Errorf("ended while chunk %d comes: got %d leases, %d loads; want none, and the chunk not there", stalls, s.OpenLeases, s.LoadsActive)
			}
			c.Reclaim(1<<20, AnyDue)
		}
	})
}

// However a load ends without a chunk, each of its waiters gets the error, the dataset's Gone is
// called, and the next request loads the chunk.
func TestLoad_FailureReachesEachWaiter(t *testing.T) {
	failure := errors.New("scripted")
	for name, of := range map[string]struct {
		load func(fills []*Fill[int]) error
		want error // error for chunk 1; chunk 2 is published
	}{
		"failed":   {func(f []*Fill[int]) error { f[1].Publish(); f[0].Fail(failure); return nil }, failure},
		"returned": {func(f []*Fill[int]) error { f[1].Publish(); return failure }, failure},
		"nothing":  {func(f []*Fill[int]) error { f[1].Publish(); return nil }, errAborted},
		"first":    {func(f []*Fill[int]) error { f[1].Publish(); f[0].Fail(failure); f[0].Publish(); return nil }, failure},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, _ := newCache(t, 1<<20)
				var gone []int
				tableOf(c).of.Gone = func(k int, _ bool) { gone = append(gone, k) }
				begin := make(chan struct{})
				both := func(missing []int) [][]int { return [][]int{missing} }
				req := Request[int]{Group: both, Load: func(_ context.Context, f []*Fill[int]) error { <-begin; return of.load(f) }}
				errs := make(chan error)
				for _, keys := range [][]Chunk[int]{{{Key: 1, Size: 100}, {Key: 2, Size: 100}}, {{Key: 1, Size: 100}}} {
					go func() {
						_, err := acquire(t.Context(), c, asking{keys, req})
						errs <- err
					}()
					synctest.Wait()
				}
				close(begin)
				for range 2 {
					if err := <-errs; !errors.Is(err, of.want) {
						t.Errorf("got %v, want %v", err, of.want)
					}
				}
				synctest.Wait()
				if !tableOf(c).Resident(2) || tableOf(c).Contains(1) || len(gone) != 1 || gone[0] != 1 {
					t.Errorf("got chunk 2 in memory: %v, chunk 1 there: %v, and %v gone; want yes, no and chunk 1", tableOf(c).Resident(2), tableOf(c).Contains(1), gone)
				}
				if s := c.Stats(); s.Failures != 1 || s.Loads != 2 || s.Joins != 1 || s.Chunks != 1 {
					t.Errorf("got %d failures, %d loads, %d joins, %d chunks; want 1, 2, 1 and 1", s.Failures, s.Loads, s.Joins, s.Chunks)
				}
				l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: load}})
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
			})
		})
	}
}

// A caller that waits for memory is woken by each event that frees some.
func TestCache_WakesThoseWhoWaitForMemory(t *testing.T) {
	const size = 1000
	failure := errors.New("scripted")
	for name, frees := range map[string]func(t *testing.T, c *Cache[int], ended chan error) func(){
		"leases are closed": func(t *testing.T, c *Cache[int], _ chan error) func() {
			l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: size}}, Request[int]{Load: load}})
			if err != nil {
				t.Fatal(err)
			}
			return l.Close
		},
		"a lease is dropped": func(t *testing.T, c *Cache[int], _ chan error) func() {
			l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: size}}, Request[int]{Load: load}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			return func() { l.Drop(0) }
		},
		"a buffer is closed": func(t *testing.T, c *Cache[int], _ chan error) func() {
			own, err := c.Buffer(t.Context(), size)
			if err != nil {
				t.Fatal(err)
			}
			return own.Close
		},
		"a load fails": func(t *testing.T, c *Cache[int], ended chan error) func() {
			fail := make(chan struct{})
			go func() {
				_, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: size}}, Request[int]{
					Load: func(context.Context, []*Fill[int]) error { <-fail; return failure },
				}})
				ended <- err
			}()
			synctest.Wait()
			return func() { close(fail) }
		},
		"a load that all have left ends": func(t *testing.T, c *Cache[int], ended chan error) func() {
			ctx, leave := context.WithCancelCause(t.Context())
			done := make(chan struct{})
			go func() {
				_, err := acquire(ctx, c, asking{[]Chunk[int]{{Key: 1, Size: size}}, Request[int]{
					Load: func(context.Context, []*Fill[int]) error { <-done; return failure },
				}})
				ended <- err
			}()
			synctest.Wait()
			leave(failure)
			return func() { close(done) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				b := budget.New(Cost(size), time.Hour)
				c := opened(t, Config{Budget: b}, nil)
				b.SetReclaim(func(n int64) int64 { return c.Reclaim(n, AnyDue) }, func() int64 { return c.Free() + c.Idle() })
				ended := make(chan error, 1)
				free := frees(t, c, ended)
				got := make(chan error)
				go func() {
					own, err := c.Buffer(t.Context(), size)
					if err == nil {
						own.Close()
					}
					got <- err
				}()
				synctest.Wait()
				if b.Waiting() != 1 {
					t.Fatal("the buffer waits for nothing")
				}
				begun := time.Now()
				free()
				if err := <-got; err != nil || time.Since(begun) != 0 {
					t.Errorf("got %v after %v, want memory at once", err, time.Since(begun))
				}
			})
		})
	}
}

func TestLeases_CloseWakesWaitersWhenAnotherHoldsTheLastChunk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size = 1000
		b := budget.New(2*Cost(size), time.Hour)
		c := opened(t, Config{Budget: b}, nil)
		b.SetReclaim(func(n int64) int64 { return c.Reclaim(n, AnyDue) }, func() int64 { return c.Free() + c.Idle() })
		both, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: size}, {Key: 2, Size: size}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		last, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 2, Size: size}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		defer last.Close()
		got := make(chan error)
		go func() {
			own, err := c.Buffer(t.Context(), size)
			if err == nil {
				own.Close()
			}
			got <- err
		}()
		synctest.Wait()
		begun := time.Now()
		both.Close()
		if err := <-got; err != nil || time.Since(begun) != 0 {
			t.Errorf("got %v after %v, want memory at once", err, time.Since(begun))
		}
	})
}

// Drop removes the values of the selected keys with their bytes. The other values stay.
func TestObjects_DropsTheKeysOfOne(t *testing.T) {
	b := budget.New(10_000, 0)
	o := NewObjects[int](b, 5000, func(v []byte) int64 { return int64(len(v)) }, func(int64) {})
	for k := range 6 {
		o.Add(k, make([]byte, 100))
	}
	o.Drop(func(k int) bool { return k%2 == 0 })
	for k := range 6 {
		if _, ok := o.Get(k); ok != (k%2 == 1) {
			t.Errorf("key %d: got it there: %v, want %v", k, ok, k%2 == 1)
		}
	}
	if want := int64(3 * (100 + objectCost)); o.Bytes() != want || b.InUse() != want {
		t.Errorf("got %d bytes, %d of the budget, want %d", o.Bytes(), b.InUse(), want)
	}
	o.Reclaim(1 << 20)
	if b.InUse() != 0 {
		t.Errorf("got %d bytes of the budget left, want none", b.InUse())
	}
}

// A second Close of the same leases or buffer does nothing outside debug mode, even if another
// caller already holds the memory.
func TestLeases_SecondCloseDoesNothing(t *testing.T) {
	c, b := newCacheWith(t, 2*Cost(100), Config{}, nil)
	get := func() *Leases[int] {
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second := get(), get()
	first.Close()
	first.Close()
	if s := c.Stats(); s.OpenLeases != 1 || c.Idle() != 0 {
		t.Errorf("closed twice: got %d leases and %d idle bytes, want the other one's lease", s.OpenLeases, c.Idle())
	}
	second.Close()
	own, err := c.Buffer(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	own.Close()
	other, err := c.Buffer(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	if own.Close(); c.Free() != 0 {
		t.Errorf("got %d bytes free, want none: the slot is another one's", c.Free())
	}
	other.Close()
	if b.InUse() != c.Free()+c.Idle() {
		t.Errorf("got %d bytes in use, want %d", b.InUse(), c.Free()+c.Idle())
	}
}

// Evictions are counted, and evictions of chunks that a reader needed soon are also counted
// separately.
func TestCache_CountsEvictions(t *testing.T) {
	c, b := newCacheWith(t, 4*Cost(100), Config{Debug: true}, func(k int) int64 {
		if k < 2 {
			return 1 // soon
		}
		return Never
	})
	for k := range 4 {
		l, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: k, Size: 100}}, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	for n, want := range [][2]uint64{{0, 0}, {1, 0}, {2, 0}, {3, 1}, {4, 2}} {
		if s := c.Stats(); s.Evictions != want[0] || s.Expected != want[1] || s.Chunks != int64(4-n) || s.Bytes != int64(4-n)*classOf(100) {
			t.Errorf("after %d: got %d evictions, %d of them expected, %d chunks of %d bytes; want %d and %d", n, s.Evictions, s.Expected, s.Chunks, s.Bytes, want[0], want[1])
		}
		c.Reclaim(1, AnyDue)
	}
	if b.InUse() != 0 {
		t.Errorf("got %d bytes in use, want none", b.InUse())
	}
}

// A buffer gets the smallest free slot that fits, but no slot that is much too large.
func TestCache_TakesTheSmallestSlotThatSuits(t *testing.T) {
	c, _ := newCache(t, 1<<20)
	var open []*Buffer[int]
	for _, n := range []int64{1000, 1150, 1024, 4000} {
		own, err := c.Buffer(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, own)
	}
	for _, own := range open {
		own.Close()
	}
	before := c.Free()
	for _, want := range []int64{1024, 1024, 1152, 0} { // the last slot is new, since 4096 is much too large
		own, err := c.Buffer(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		if want == 0 {
			if got := c.Free(); got != before {
				t.Errorf("got a slot of %d bytes for 1000, want a new one", before-got-entryCost)
			}
		} else if got := before - c.Free() - entryCost; got != want {
			t.Errorf("got a slot of %d bytes for 1000, want %d", got, want)
		}
		before = c.Free()
	}
}

// Drop waits for running loads, including those that all callers have left.
func TestCache_DropWaitsForLoads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, b := newCache(t, 1<<20)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			_, _ = acquire(ctx, c, asking{[]Chunk[int]{{Key: 1, Size: 100}}, Request[int]{Load: func(context.Context, []*Fill[int]) error {
				time.Sleep(time.Minute) // ignores its context
				return errAborted
			}}})
		}()
		synctest.Wait()
		leave()
		begun := time.Now()
		if c.Drop(); time.Since(begun) != time.Minute || b.InUse() != 0 {
			t.Errorf("got all dropped after %v with %d bytes in use, want 1m0s and none", time.Since(begun), b.InUse())
		}
	})
}

// A shelf without due times evicts the oldest chunk, and works without an evicted function.
func TestShelf_WithoutDueTimes(t *testing.T) {
	s := NewShelf[int](nil, nil)
	for k := range 3 {
		s.Put(k, 10, 0)
	}
	if got := s.Evict(15, Soon); got != 20 || s.Bytes() != 10 || s.Has(0) || s.Has(1) || !s.Has(2) {
		t.Errorf("got %d bytes evicted and %d left, want the oldest two gone", got, s.Bytes())
	}
}
