package chunkcache

import (
	"math/bits"
	"os"

	"github.com/millrace-data/millrace/internal/budget"
)

const (
	// heapClass is the largest class that is taken from Go's heap: whole pages would waste more.
	heapClass = 64 << 10
	// entryCost is what one cached chunk costs in Go's heap beside its bytes: entry, slot, reservation, its
	// place among the idle ones and a map cell, with keys of 48 bytes measured 388 bytes.
	entryCost = 448
	poison    = 0xDB
)

// slot is memory for one chunk. Exactly one of the free list, a load or an entry owns it.
type slot struct {
	class  int64
	arena  *arena
	buf    []byte // nil until the first load makes it ready
	piece  piece  // where buf lies, unless that is in Go's heap
	sparse bool   // much of it may never be written, so the kernel provides each page when it is
	length int64  // of what lies in it
	held   *budget.Reservation

	instead []*slot // slots whose bytes of the budget are this one's now: their memory goes before it has any
}

// classOf returns the size of the slots that hold n bytes: the next of eight steps
// between two powers of two, in whole pages where it is cut from the arena.
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
// is less waste than to give it back and to populate another.
func suits(have, class int64) bool { return have >= class && have-class <= class/4 }

// bytes returns what lies in the slot.
func (s *slot) bytes() []byte { return s.buf[:s.length:s.length] }

func (s *slot) cost() int64 { return s.class + entryCost }

// ready gives the slot its memory if it has none. It gives back what the slot's bytes of the budget
// were before, so no lock may be held.
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

// settle gives the memory back whose bytes of the budget the slot has.
func (s *slot) settle() {
	for _, old := range s.instead {
		old.clear()
	}
	s.instead = nil
}

// drop gives memory and reservation back. Nothing may read the slot afterwards, and no lock may be held.
func (s *slot) drop() {
	s.settle()
	s.clear()
	s.held.Release()
}

// clear gives the memory back.
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
