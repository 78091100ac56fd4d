package chunkcache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// TestCache_TryBufferTakesNothingFromReaders checks that a try takes a free slot first, then free
// memory, then chunks that no reader needs soon. It evicts no other chunks, no leased chunks, and
// none without success.
func TestCache_TryBufferTakesNothingFromReaders(t *testing.T) {
	const size = 100_000
	soon := map[int]bool{1: true}
	c, b := newCacheWith(t, 4*Cost(size), Config{Debug: true}, func(k int) int64 {
		if soon[k] {
			return Soon
		}
		return Soon + 1
	})
	var wants []Chunk[int]
	for key := range 3 {
		wants = append(wants, Chunk[int]{Key: key, Size: size})
	}
	leases, err := acquire(t.Context(), c, asking{wants, Request[int]{Load: load}})
	if err != nil {
		t.Fatal(err)
	}
	try := func(when string, n int64, want bool, inUse, free, evictions int) (got *Buffer[int]) {
		t.Helper()
		got, ok := c.TryBuffer(n)
		if ok != want || (got != nil) != want {
			t.Fatalf("%s: got memory: %v, %v, want %v", when, got != nil, ok, want)
		}
		if b.InUse() != int64(inUse)*Cost(size) || c.Free() != int64(free)*Cost(size) || c.Stats().Evictions != uint64(evictions) {
			t.Errorf("%s: got %d bytes in use, %d free, %d evictions; want %d and %d slots and %d", when, b.InUse(), c.Free(), c.Stats().Evictions, inUse, free, evictions)
		}
		return got
	}
	last := try("free memory", size, true, 4, 0, 0)
	try("all leased", size, false, 4, 0, 0)
	last.Close()
	last = try("a free slot", size-1000, true, 4, 0, 0)
	if got := len(last.Bytes()); got != size-1000 {
		t.Errorf("got %d bytes, want %d", got, size-1000)
	}
	leases.Close()
	soon[0], soon[2] = true, true
	try("all needed soon", size, false, 4, 0, 0)
	soon[0], soon[2] = false, false
	try("more than all", 4*size, false, 4, 0, 0)
	other := try("chunks not needed soon", size, true, 4, 0, 1)
	if !resident(c, 1) {
		t.Error("got a chunk evicted that a reader comes for soon")
	}
	last.Close()
	other.Close()
	if got := c.Reclaim(Cost(size), Soon); got != Cost(size) || c.Free() != Cost(size) {
		t.Errorf("got %d bytes reclaimed and %d free, want one slot of %d and the other left", got, c.Free(), Cost(size))
	}
}

// TestCache_TryBufferPassesWaiter checks that, while a buffer waits for memory that others hold, a
// small buffer gets the memory of idle chunks, and nothing is populated.
func TestCache_TryBufferPassesWaiter(t *testing.T) {
	const size = 100_000
	bubble.Test(t, func(t *testing.T) {
		c, b := newCache(t, 10*Cost(size))
		pinned, err := b.Reserve(t.Context(), 4*Cost(size))
		if err != nil {
			t.Fatal(err)
		}
		var wants []Chunk[int]
		for key := range 5 {
			wants = append(wants, Chunk[int]{Key: key, Size: size})
		}
		leases, err := acquire(t.Context(), c, asking{wants, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		leases.Close()
		waits := make(chan error)
		go func() {
			_, err := c.Buffer(t.Context(), 7*size)
			waits <- err
		}()
		synctest.Wait()
		before := c.Stats()
		held := b.InUse()
		if c.Populate(size) || b.InUse() != held || c.Stats().FreeBytes != before.FreeBytes {
			t.Error("got memory populated that a buffer waits for")
		}
		if c.Populate(100) != true {
			t.Error("got a small chunk in the way of the next one, want it left to the heap")
		}
		var own []*Buffer[int]
		for i := range 2 {
			got, ok := c.TryBuffer(size)
			if !ok {
				t.Fatalf("try %d: got no memory, of six free parts", i)
			}
			if got.Cost() != Cost(size) {
				t.Errorf("try %d: got %d bytes of the budget, want %d", i, got.Cost(), Cost(size))
			}
			own = append(own, got)
		}
		if got := c.Stats().Evictions - before.Evictions; got != 1 {
			t.Errorf("got %d chunks evicted for two parts of which one was free, want 1", got)
		}
		for _, got := range own {
			got.Close()
		}
		if err := <-waits; !errors.Is(err, budget.ErrOverloaded) {
			t.Errorf("got %v for more than others leave, want %v", err, budget.ErrOverloaded)
		}
		pinned.Release()
	})
}

// TestCache_PoisonsFreeSlotsInDebugMode checks that the freed memory of a buffer, of a failed load
// and of its additional memory is overwritten.
func TestCache_PoisonsFreeSlotsInDebugMode(t *testing.T) {
	const size, extra = 1000, 2000
	failed := errors.New("scripted")
	for _, debug := range []bool{true, false} {
		c, _ := newCacheWith(t, 1<<20, Config{Debug: debug}, nil)
		var kept [][]byte
		own, ok := c.TryBuffer(size)
		if !ok {
			t.Fatal("got no memory of an empty cache")
		}
		kept = append(kept, own.Bytes())
		fill := func(b []byte) {
			for i := range b {
				b[i] = 7
			}
		}
		fill(own.Bytes())
		_, err := acquire(t.Context(), c, asking{[]Chunk[int]{{Key: 1, Size: size, Extra: extra}}, Request[int]{
			Load: func(_ context.Context, fills []*Fill[int]) error {
				kept = append(kept, fills[0].Bytes(), fills[0].Extra())
				fill(fills[0].Bytes())
				fill(fills[0].Extra())
				return failed
			},
		}})
		if !errors.Is(err, failed) {
			t.Fatalf("got %v, want %v", err, failed)
		}
		own.Close()
		want := byte(7)
		if debug {
			want = poison
		}
		for i, b := range kept {
			if b[0] != want || b[len(b)-1] != want {
				t.Errorf("memory %d, debug mode %v: got %x to %x, want %x", i, debug, b[0], b[len(b)-1], want)
			}
		}
	}
}

// TestFill_DescribesItsChunk checks that a load can read its chunk's number, key and memory, and
// whether a request still waits for it.
func TestFill_DescribesItsChunk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, _ := newCache(t, 1<<20)
		sizes := []int64{0, 1, 1000, 100_000}
		for key, size := range sizes {
			ctx, leave := context.WithCancel(t.Context())
			goOn := make(chan struct{})
			got := make(chan error, 1)
			go func() {
				_, err := acquire(ctx, c, asking{[]Chunk[int]{{Key: key, Size: size}}, Request[int]{Load: func(ctx context.Context, fills []*Fill[int]) error {
					f := fills[0]
					if len(fills) != 1 || f.Chunk != key || f.Key() != key || int64(len(f.Bytes())) != size || f.Extra() != nil {
						t.Errorf("got %d fills, of chunk %d, key %d, %d bytes and %d additional; want chunk %d of %d bytes", len(fills), f.Chunk, f.Key(), len(f.Bytes()), len(f.Extra()), key, size)
					}
					if !f.Needed() {
						t.Error("got a chunk not needed that a request waits for")
					}
					<-goOn
					if f.Needed() {
						t.Error("got a chunk needed that its request has left")
					}
					return ctx.Err()
				}}})
				got <- err
			}()
			synctest.Wait()
			leave()
			synctest.Wait()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
			close(goOn)
			synctest.Wait()
			if resident(c, key) {
				t.Error("got a chunk in memory whose load was given up")
			}
		}
		if got := c.Stats(); got.Failures != uint64(len(sizes)) || got.Loads != got.Failures || got.Misses != got.Loads || got.Hits != 0 {
			t.Errorf("got %+v, want %d loads, all failed", got, len(sizes))
		}
	})
}

// TestLeases_ReleasedTwicePanics checks that releasing an entry more often than it was leased
// panics.
func TestLeases_ReleasedTwicePanics(t *testing.T) {
	s := NewShelf[int](nil, nil)
	s.Put(1, 10, 1)
	if !s.Release(1) {
		t.Error("got the last lease not the last")
	}
	defer func() {
		if recover() == nil {
			t.Error("got a lease closed twice without a panic")
		}
	}()
	s.Release(1)
}
