package chunkcache

import (
	"math/bits"
	"os"

	"github.com/millrace-data/millrace/internal/budget"
)

const (
	// heapClass is the largest class that is allocated in Go's heap: in whole pages, smaller
	// slots would waste more.
	heapClass = 64 << 10
	// entryCost is the overhead of one cached chunk in Go's heap: entry, slot, reservation, its
	// position in the idle lists, and a map cell. With keys of 48 bytes, 388 bytes were
	// measured.
	entryCost = 448
	poison    = 0xDB
)

// slot is memory for one chunk. It is owned by the free list, a load or an entry.
type slot struct {
	class  int64
	arena  *arena
	buf    []byte // nil until ready has been called
	piece  piece  // address space of buf, unless buf is in Go's heap
	sparse bool   // the kernel allocates each page when it is written, since much of the slot may never be written
	length int64  // length of the content
	held   *budget.Reservation

	instead []*slot // slots from which this slot takes over bytes of the budget: their memory is freed before this slot is allocated
}

// classOf returns the size of the slots for n bytes: the next of eight steps between two powers of
// two, rounded to whole pages if the slot is cut from the arena.
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

// Cost returns the number of bytes of the budget that a cached chunk of n bytes takes.
func Cost(n int64) int64 { return classOf(n) + entryCost }

// suits reports whether an existing slot can be used for a class. A slot of up to a quarter more
// than needed wastes less than freeing it and populating another one.
func suits(have, class int64) bool { return have >= class && have-class <= class/4 }

// bytes returns the content of the slot.
func (s *slot) bytes() []byte { return s.buf[:s.length:s.length] }

func (s *slot) cost() int64 { return s.class + entryCost }

// ready allocates the slot's memory if it has none. It first frees the slots from which this slot
// takes over bytes of the budget, so no lock may be held.
func (s *slot) ready() (err error) {
	s.settle()
	switch {
	case s.buf != nil:
	case s.class <= heapClass:
		s.buf = make([]byte, s.class)
	default:
		if s.piece, err = s.arena.cut(s.class, s.sparse); err == nil {
			s.buf = s.piece.bytes()
		}
	}
	return err
}

// settle frees the slots from which this slot has taken over bytes of the budget.
func (s *slot) settle() {
	for _, old := range s.instead {
		old.clear()
	}
	s.instead = nil
}

// drop frees the memory and the reservation. The slot must not be used afterwards. No lock may be
// held during the call.
func (s *slot) drop() {
	s.settle()
	s.clear()
	s.held.Release()
}

// clear frees the memory.
func (s *slot) clear() {
	if s.buf != nil && s.class > heapClass {
		s.arena.clear(s.piece)
	}
	s.buf = nil
}

func (s *slot) poison() {
	for i := range s.buf {
		s.buf[i] = poison
	}
}
