package chunkcache

import (
	"bytes"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-data/millrace/internal/bubble"
	"github.com/millrace-data/millrace/internal/budget"
)

// A buffer that waited for memory gets that of the one that is closed, as it is: nothing is given
// back and populated anew while many wait.
func TestWhoWaitsTakesAFreeSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size, waiters = 1 << 20, 4
		b := budget.New(2*Cost(size), time.Minute)
		c := New[int](Config{Budget: b})
		b.SetReclaim(func(n int64) int64 { return c.Reclaim(n, Whatever) }, func() int64 { return c.Free() + c.Idle() })
		var open []*Buffer[int]
		for range 2 {
			own, err := c.Buffer(t.Context(), size)
			if err != nil {
				t.Fatal(err)
			}
			for i := range own.Bytes() {
				own.Bytes()[i] = 7
			}
			open = append(open, own)
		}
		got := make(chan *Buffer[int], waiters)
		for range waiters {
			go func() {
				own, err := c.Buffer(t.Context(), size)
				if err != nil {
					t.Error(err)
				}
				got <- own
			}()
			synctest.Wait()
		}
		for range waiters {
			open[0].Close()
			synctest.Wait()
			own := <-got
			if !bytes.Equal(own.Bytes(), bytes.Repeat([]byte{7}, size)) {
				t.Error("the memory of a closed buffer was given back, and other memory populated for one that waited")
			}
			open = append(open[1:], own)
		}
		for _, own := range open {
			own.Close()
		}
		c.Drop()
	})
}

// mappings counts the mappings of this process.
func mappings(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("there is no list of mappings here")
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(maps, []byte("\n"))
}

// However many slots there are, and whichever are given back, there are few mappings: the kernel
// allows 65,530, and Go's runtime ends the process when it cannot have one more.
func TestSlotsGivenBackLeaveFewMappings(t *testing.T) {
	const n, size = 2000, 68 << 10
	c, b := newCacheWith(t, n*Cost(size), Config{}, nil)
	before := mappings(t)
	var open []*Buffer[int]
	for range n {
		own, err := c.Buffer(t.Context(), size)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, own)
	}
	for i := 0; i < n; i += 2 {
		open[i].Close()
	}
	c.Reclaim(b.Total(), Whatever)
	if got := b.InUse(); got != n/2*Cost(size) {
		t.Errorf("got %d bytes in use, want those of half the slots, %d", got, n/2*Cost(size))
	}
	if got := mappings(t) - before; got > 50 {
		t.Errorf("got %d mappings more for %d slots, every other one given back, want a few", got, n)
	}
	for i := 1; i < n; i += 2 {
		open[i].Close()
	}
}

// A slot that is made of the bytes of slots of other classes gives their memory back before it has any.
func TestSlotsOfOtherClassesGiveTheirMemory(t *testing.T) {
	const size = 1 << 20
	c, _ := newCacheWith(t, 4*Cost(size), Config{}, nil)
	for range 2 {
		var open []*Buffer[int]
		for range 4 {
			own, err := c.Buffer(t.Context(), size)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, own)
		}
		for _, own := range open {
			own.Close()
		}
		large, ok := c.TryBuffer(3 * size)
		if !ok {
			t.Fatal("got no buffer where there are free slots of other classes")
		}
		if got := c.arena.used; got != 2 {
			t.Errorf("got %d slots with memory, want the large one and one of the others", got)
		}
		large.Close()
	}
}
