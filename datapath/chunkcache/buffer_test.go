package chunkcache

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// The memory of a buffer is reserved while the buffer is open. It then serves the next buffer, and
// is reclaimed for chunks while it is free.
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
	if got := c.Reclaim(1, Soon); got != held {
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

// TestLeasesAreSwappedForCopies checks that a lease can be replaced by a smaller copy even while
// callers wait for memory. It cannot if the copies of all holders of the chunk together would take
// more memory than the chunk.
func TestLeasesAreSwappedForCopies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size = 256 << 10
		c, b := newCache(t, 5*(size+entryCost))
		wants := []Chunk[int]{{Key: 1, Size: size}, {Key: 2, Size: size}, {Key: 3, Size: size}, {Key: 4, Size: size}}
		l, err := acquire(t.Context(), c, asking{wants, Request[int]{Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		waits := make(chan error, 2)
		for _, n := range []int64{b.Total(), 2 * size} {
			go func() {
				r, err := b.Reserve(t.Context(), n)
				if err == nil {
					r.Release()
				}
				waits <- err
			}()
			synctest.Wait()
		}
		if _, ok := c.TryBuffer(size / 4); ok {
			t.Error("got memory while a buffer waits for all, want none")
		}
		if _, ok := l.Instead(0, size); ok {
			t.Error("got a copy as large as the chunk, want none")
		}
		second, ok := c.Lease(tableOf(c).Table, 1, false, func(int) int { return 1 })
		if !ok {
			t.Fatal("chunk 1 is not in memory")
		}
		if _, ok := l.Instead(0, size*2/3); ok {
			t.Error("got a copy of two thirds of a chunk that two hold, want none")
		}
		second.Close()
		for at := range 2 {
			own, ok := l.Instead(at, size/4)
			if !ok {
				t.Fatalf("got no memory for a copy of chunk %d, want some", at+1)
			}
			defer own.Close()
			copy(own.Bytes(), l.Bytes(at)[size/2:])
			l.Drop(at)
			l.Drop(at)
			if l.Holds(at) || !l.Holds(2) {
				t.Errorf("got a lease of chunk %d held: %v, and of chunk 3: %v", at+1, l.Holds(at), l.Holds(2))
			}
		}
		if err := <-waits; err != nil {
			t.Errorf("got %v for the one that waited for less, want memory of the chunks", err)
		}
		if err := <-waits; !errors.Is(err, budget.ErrOverloaded) {
			t.Errorf("got %v for the one that waited for all, want %v", err, budget.ErrOverloaded)
		}
	})
}

// TestCache_TriesLeaveWaitersTheirMemory checks that, while a buffer waits, tries get only memory
// that the waiter does not need, even if slots are free and chunks could be evicted. Freed memory
// goes to the waiter, which is served although the tries hold the rest.
func TestCache_TriesLeaveWaitersTheirMemory(t *testing.T) {
	const size = 256 << 10
	tries := map[string]func(c *Cache[int], n int64) (*Buffer[int], bool){"TryBuffer": (*Cache[int]).TryBuffer, "TryWork": (*Cache[int]).TryWork}
	for name, try := range tries {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, b := newCache(t, 10*Cost(size))
				var wants []Chunk[int]
				for key := range 6 {
					wants = append(wants, Chunk[int]{Key: key, Size: size})
				}
				held, err := acquire(t.Context(), c, asking{wants[:4], Request[int]{Load: load}})
				if err != nil {
					t.Fatal(err)
				}
				idle, err := acquire(t.Context(), c, asking{wants[4:], Request[int]{Load: load}})
				if err != nil {
					t.Fatal(err)
				}
				idle.Close()
				free, ok := c.TryBuffer(size)
				if !ok {
					t.Fatal("got no memory of an empty cache")
				}
				free.Close()
				waits := make(chan *Buffer[int])
				go func() {
					own, _ := c.Buffer(t.Context(), 8*size)
					waits <- own
				}()
				synctest.Wait()
				var own []*Buffer[int]
				for i := range 3 {
					got, ok := try(c, size)
					if want := i < 2; ok != want {
						t.Errorf("try %d of a tenth of all memory, past one that waits for eight: got %v, want %v", i+1, ok, want)
					}
					if ok {
						own = append(own, got)
						defer got.Close()
					}
				}
				if got := c.Stats(); got.Chunks != 6 || got.FreeBytes != Cost(size) {
					t.Errorf("got %d chunks and %d bytes free, want all chunks and the slot, which the one that waits needs", got.Chunks, got.FreeBytes)
				}
				own[0].Close()
				got, ok := try(c, size)
				if !ok {
					t.Fatal("got no memory after as much was given back")
				}
				defer got.Close()
				held.Close()
				if large := <-waits; large == nil {
					t.Errorf("the one that waits got none of %d bytes, of which tries hold %d", b.Total(), 2*Cost(size))
				} else {
					large.Close()
				}
			})
		})
	}
}

// TestBuffersShrink checks that Shrink frees the unneeded part of a buffer in whole pages, and that
// the shrunken slot is not reused.
func TestBuffersShrink(t *testing.T) {
	c, b := newCache(t, 4<<20)
	own, err := c.Buffer(t.Context(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i := range own.Bytes() {
		own.Bytes()[i] = 7
	}
	own.Shrink(300_001)
	page := os.Getpagesize()
	if got, want := b.InUse(), int64((300_001/page+1)*page+entryCost); got != want || own.Cost() != want {
		t.Errorf("got %d bytes in use, of which the buffer costs %d, want %d", got, own.Cost(), want)
	}
	if got := own.Bytes(); len(got) != 300_001 || got[0] != 7 || got[300_000] != 7 {
		t.Errorf("got %d bytes that begin with %d and end with %d, want 300001 of 7", len(got), got[0], got[len(got)-1])
	}
	own.Close()
	if got := b.InUse(); got != 0 {
		t.Errorf("got %d bytes in use, want none", got)
	}
}
