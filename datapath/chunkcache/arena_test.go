package chunkcache

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/millrace-data/millrace/internal/budget"
	"github.com/millrace-data/millrace/internal/testing/bubble"
)

// A buffer that waits for memory gets the slot of a closed buffer unchanged: while buffers wait, no
// memory is freed and populated again.
func TestBuffer_WaiterTakesFreeSlot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const size, waiters = 1 << 20, 4
		b := budget.New(2*Cost(size), time.Minute)
		c := New[int](Config{Budget: b})
		b.SetReclaim(func(n int64) int64 { return c.Reclaim(n, AnyDue) }, func() int64 { return c.Free() + c.Idle() })
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

// mappings returns the number of memory mappings of this process.
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

// There are few mappings, for any number of slots and any order of release. The kernel allows
// 65,530, and Go's runtime ends the process when it cannot create another.
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
	c.Reclaim(b.Total(), AnyDue)
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

// If a slot is made from the reserved bytes of slots of other classes, their memory is freed before
// its own is allocated.
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

// TestArena_AddressSpaceServesAnyClass checks that address space of freed slots is reused by slots
// of other classes, so that mixed sizes take little more address space than memory.
func TestArena_AddressSpaceServesAnyClass(t *testing.T) {
	const total = 64 << 20
	a := newArena(total)
	defer a.close()
	for _, size := range []int64{8 << 20, 100 << 10, 3 << 20, 1 << 20, 68 << 10, 5 << 20, total} {
		class := classOf(size)
		var all []piece
		for range total / class {
			p, err := a.cut(class, true)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		for first := range 2 { // so that each free span is merged with both neighbours
			for i := first; i < len(all); i += 2 {
				a.clear(all[i])
			}
		}
		if got := len(a.regions); got != 1 {
			t.Fatalf("got %d mappings of %d bytes for %d bytes of slots, now of %d bytes each, want 1", got, a.length, total, class)
		}
	}
}

// TestArena_PiecesShareNoBytes runs random programs. Pieces never overlap, and when all are
// cleared, each region has a single free span.
func TestArena_PiecesShareNoBytes(t *testing.T) {
	page := int64(os.Getpagesize())
	rapid.Check(t, func(t *rapid.T) {
		a := &arena{length: 64 * page}
		defer a.close()
		var open []piece
		t.Repeat(map[string]func(*rapid.T){
			"cut": func(t *rapid.T) {
				p, err := a.cut(rapid.Int64Range(1, 80).Draw(t, "pages")*page, true)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range open {
					if o.region == p.region && p.from < o.to && o.from < p.to {
						t.Fatalf("got %v while %v is in use", p.span, o.span)
					}
				}
				open = append(open, p)
			},
			"clear": func(t *rapid.T) {
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "piece")
					a.clear(open[i])
					open = slices.Delete(open, i, i+1)
				}
			},
		})
		for _, p := range open {
			a.clear(p)
		}
		for _, r := range a.regions {
			if want := []span{{0, int64(len(r.bytes))}}; !slices.Equal(r.free, want) {
				t.Errorf("got %v free of a region of which all was given back, want %v", r.free, want)
			}
		}
	})
}
