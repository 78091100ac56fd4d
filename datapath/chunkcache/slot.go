package chunkcache

import (
	"fmt"
	"math/bits"
	"os"

	"github.com/millrace-data/millrace/internal/budget"
)

const (
	// heapClass is the largest class that is taken from Go's heap: a mapping of its own would waste
	// more on page rounding, and the kernel limits their number.
	heapClass = 64 << 10
	// entryCost is what one cached chunk costs in Go's heap beside its bytes: entry, slot, reservation, its
	// place among the idle ones and a map cell.
	entryCost = 448
	poison    = 0xDB
)

// slot is memory for one chunk. Exactly one of the free list, a load or an entry owns it.
type slot struct {
	class int64
	buf   []byte // nil until the first load maps it
	held  *budget.Reservation
}

// classOf returns the size of the slots that hold n bytes: the next of eight steps
// between two powers of two, in whole pages where it is mapped.
func classOf(n int64) int64 {
	if n <= 64 {
		return 64
	}
	step := int64(1) << max(bits.Len64(uint64(n-1))-4, 0)
	class := (n + step - 1) / step * step
	if class > heapClass {
		page := int64(os.Getpagesize())
		class = (class + page - 1) / page * page
	}
	return class
}

// Cost returns how many bytes of the budget a cached chunk of n bytes takes.
func Cost(n int64) int64 { return classOf(n) + entryCost }

// suits reports whether a slot that is there already serves for a class: a quarter more than is needed
// is less waste than to unmap it and to map another.
func suits(have, class int64) bool { return have >= class && have-class <= class/4 }

func (s *slot) cost() int64 { return s.class + entryCost }

// ready maps the slot if that has not been done.
func (s *slot) ready() error {
	if s.buf != nil {
		return nil
	}
	if s.class <= heapClass {
		s.buf = make([]byte, s.class)
		return nil
	}
	buf, err := mapSlot(int(s.class))
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", s.class, err)
	}
	s.buf = buf
	return nil
}

// drop gives memory and reservation back. Nothing may read the slot afterwards.
func (s *slot) drop() {
	if s.buf != nil && s.class > heapClass {
		if err := unmapSlot(s.buf); err != nil {
			panic(fmt.Sprintf("chunkcache: unmap a slot: %v", err))
		}
	}
	s.buf = nil
	s.held.Release()
}

func (s *slot) poison() {
	for i := range s.buf {
		s.buf[i] = poison
	}
}
