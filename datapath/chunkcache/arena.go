package chunkcache

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// arena is the address space for slots. Clearing a slot frees its memory, but the address space
// stays mapped until the arena is closed. Unmapping would take a lock that all page faults of the
// process need. And a hole for each free slot would split mappings, of which the kernel allows
// 65,530.
type arena struct {
	length int64 // length of a mapping

	mu      sync.Mutex // guards the fields below
	regions []*region
	used    int // number of slots that are not empty
}

// region is one mapping. Its free spans serve slots of all classes, since some systems limit
// address space.
type region struct {
	bytes []byte
	free  []span // sorted by address, without adjacent spans
}

// span is a part of a region.
type span struct{ from, to int64 }

// piece is the address space of a slot.
type piece struct {
	region *region
	span
}

func (p piece) bytes() []byte { return p.region.bytes[p.from:p.to:p.to] }

// regionSize is the length of a mapping: large, so that there are few, and small compared with a
// machine's memory, since some systems limit address space.
const regionSize = 256 << 20

// newArena returns an arena for the slots of a budget of total bytes.
func newArena(total int64) *arena {
	return &arena{length: classOf(min(max(total, heapClass+1), regionSize))}
}

// cut returns address space for a slot of a class. Unless the slot is sparse, cut also populates
// its memory if the kernel supports that, so that reads and fills cause no page faults.
func (a *arena) cut(class int64, sparse bool) (piece, error) {
	p, err := a.take(class)
	if err == nil && !sparse {
		populate(p.bytes())
	}
	return p, err
}

func (a *arena) take(class int64) (piece, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.regions {
		if s, ok := r.take(class); ok {
			a.used++
			return piece{r, s}, nil
		}
	}
	n := max(class, a.length)
	b, err := mapRegion(int(n))
	if err != nil {
		return piece{}, fmt.Errorf("map %d bytes: %w", n, err)
	}
	r := &region{bytes: b, free: []span{{0, n}}}
	a.regions = append(a.regions, r)
	s, _ := r.take(class)
	a.used++
	return piece{r, s}, nil
}

// take takes n bytes from the first free span that is large enough.
func (r *region) take(n int64) (span, bool) {
	i := slices.IndexFunc(r.free, func(s span) bool { return s.to-s.from >= n })
	if i < 0 {
		return span{}, false
	}
	s := span{r.free[i].from, r.free[i].from + n}
	if r.free[i].from = s.to; s.to == r.free[i].to {
		r.free = slices.Delete(r.free, i, i+1)
	}
	return s, true
}

// give frees a span, and merges it with adjacent free spans.
func (r *region) give(s span) {
	i, _ := slices.BinarySearchFunc(r.free, s, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	next := i
	if i > 0 && r.free[i-1].to == s.from {
		i--
		s.from = r.free[i].from
	}
	if next < len(r.free) && r.free[next].from == s.to {
		s.to = r.free[next].to
		next++
	}
	r.free = slices.Replace(r.free, i, next, s)
}

// clear frees the memory of a slot. The slot must not be read afterwards.
func (a *arena) clear(p piece) {
	discard(p.bytes())
	a.mu.Lock()
	defer a.mu.Unlock()
	p.region.give(p.span)
	a.used--
}

// close unmaps the arena if none of its slots is in use.
func (a *arena) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used > 0 {
		return
	}
	for _, r := range a.regions {
		if err := unix.Munmap(r.bytes); err != nil {
			panic(fmt.Sprintf("chunkcache: unmap %d bytes: %v", len(r.bytes), err))
		}
	}
	a.regions = nil
}

// discard frees the memory of pages. If that fails, the memory stays until the arena is closed.
func discard(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }
