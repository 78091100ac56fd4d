package chunkcache

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// arena is address space that slots are cut from. Only memory is given back, never address space:
// to unmap takes the lock that all of the process's page faults take, and a hole for each slot would
// be a mapping for each slot, of which the kernel allows 65,530.
type arena struct {
	region int64 // length of a mapping

	mu    sync.Mutex // guards what follows
	all   [][]byte   // the mappings
	left  []byte     // of the last one
	empty map[int64][][]byte
	used  int // slots that are not empty
}

// regionSize is the length of a mapping: large, so that there are few, and small against the memory of
// a machine, since some systems count address space.
const regionSize = 256 << 20

// newArena returns an arena for a budget of so many bytes.
func newArena(total int64) *arena {
	return &arena{region: classOf(min(max(total, heapClass+1), regionSize)), empty: map[int64][][]byte{}}
}

// cut returns the address space of a slot of a class. Unless it is sparse its memory is populated, so that no read or fill
// stops at a page fault, where the kernel can do that.
func (a *arena) cut(class int64, sparse bool) ([]byte, error) {
	b, err := a.take(class)
	if err == nil && !sparse {
		populate(b)
	}
	return b, err
}

func (a *arena) take(class int64) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if list := a.empty[class]; len(list) > 0 {
		a.empty[class] = list[:len(list)-1]
		a.used++
		return list[len(list)-1], nil
	}
	if int64(len(a.left)) < class {
		b, err := mapRegion(int(max(class, a.region)))
		if err != nil {
			return nil, fmt.Errorf("map %d bytes: %w", max(class, a.region), err)
		}
		a.all, a.left = append(a.all, b), b
	}
	b := a.left[:class:class]
	a.left = a.left[class:]
	a.used++
	return b, nil
}

// clear gives the memory of a slot back. Nothing may read the slot afterwards.
func (a *arena) clear(b []byte) {
	discard(b)
	class := int64(len(b))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.empty[class] = append(a.empty[class], b)
	a.used--
}

// close unmaps the arena if no slot of it is in use.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used > 0 {
		return
	}
	for _, b := range a.all {
		if err := unix.Munmap(b); err != nil {
			panic(fmt.Sprintf("chunkcache: unmap %d bytes: %v", len(b), err))
		}
	}
	a.all, a.left = nil, nil
	clear(a.empty)
}

// discard gives the memory of pages back. Where that fails, they stay until the arena is closed.
func discard(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }
