package chunkcache

import (
	"context"
	"os"
)

// Buffer is memory in a slot for bytes other than a chunk. Its slot is reused, and is outside the
// garbage collector's heap, like the slots of chunks.
type Buffer[K comparable] struct {
	cache *Cache[K]
	slot  *slot // nil: closed
}

// Buffer returns n bytes of memory with arbitrary content. Unlike Start it waits for memory, as the
// budget does, so its caller must not hold anything that other callers wait for.
func (c *Cache[K]) Buffer(ctx context.Context, n int64) (*Buffer[K], error) {
	class := classOf(n)
	if class+entryCost > c.budget.Total() {
		class = max(n, c.budget.Total()-entryCost) // use the whole budget rather than reject the request
	}
	var s *slot // a free slot, taken when it is this caller's turn
	held, err := c.budget.ReserveOr(ctx, min(class+entryCost, max(n, c.budget.Total())), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		s = c.takeFree(class)
		return s != nil
	})
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &slot{class: class, arena: c.arena, held: held}
	}
	return c.open(s, n)
}

// TryBuffer returns n bytes of memory with arbitrary content, from free memory or from chunks that
// no reader needs soon. It returns false if there is no memory in addition to that for which other
// callers wait.
func (c *Cache[K]) TryBuffer(n int64) (*Buffer[K], bool) { return c.tryOrPass(n, false) }

// TryWork is like TryBuffer, for working memory: the kernel allocates its pages when they are
// written, since much of it may never be written.
func (c *Cache[K]) TryWork(n int64) (*Buffer[K], bool) { return c.tryOrPass(n, true) }

// tryOrPass implements TryBuffer and TryWork. While other callers wait for memory it uses no free
// slot. It frees slots and reserves their bytes instead, since the budget counts only reservations
// as having passed the waiters.
func (c *Cache[K]) tryOrPass(n int64, sparse bool) (*Buffer[K], bool) {
	if c.budget.Waiting() == 0 {
		return c.tryBuffer(n, c.budget.TryReserve, sparse)
	}
	held, ok := c.budget.ReserveFrom(Cost(n),
		func(n int64) int64 { return c.Reclaim(n, Soon) },
		func() int64 { return c.Free() + c.Idle() })
	if !ok {
		return nil, false
	}
	b, err := c.open(&slot{class: classOf(n), arena: c.arena, sparse: sparse, held: held}, n)
	return b, err == nil
}

// tryBuffer takes a slot: a free slot, memory that reserve grants, or the slot of a chunk that no
// reader needs soon.
func (c *Cache[K]) tryBuffer(n int64, reserve reserve, sparse bool) (*Buffer[K], bool) {
	for {
		c.mu.Lock()
		slots, need := c.takeSlots([]int64{n}, reserve)
		c.mu.Unlock()
		if slots != nil {
			slots[0].sparse = sparse
			b, err := c.open(slots[0], n)
			return b, err == nil
		}
		if !c.makeRoom(need, Soon) {
			return nil, false
		}
	}
}

// open prepares a slot for n bytes.
func (c *Cache[K]) open(s *slot, n int64) (*Buffer[K], error) {
	s.length = n
	if err := s.ready(); err != nil {
		s.drop()
		return nil, err
	}
	return &Buffer[K]{cache: c, slot: s}, nil
}

// Bytes returns the memory, valid until Close.
func (b *Buffer[K]) Bytes() []byte { return b.slot.bytes() }

// Cost returns the number of bytes of the budget that Close frees.
func (b *Buffer[K]) Cost() int64 { return b.slot.held.Size() }

// Shrink frees the memory behind the first n bytes, in whole pages.
func (b *Buffer[K]) Shrink(n int64) {
	page := int64(os.Getpagesize())
	keep := (n + page - 1) / page * page
	if b.slot.class <= heapClass || keep >= b.slot.class {
		return
	}
	discard(b.slot.buf[keep:])
	b.slot.length = n
	b.slot.held.Shrink(keep + entryCost)
}

// Close frees the memory. A second call does nothing.
func (b *Buffer[K]) Close() {
	c, s := b.cache, b.slot
	if s == nil {
		return
	}
	b.slot = nil
	if s.held.Size() != s.cost() || s.held.Passed() {
		s.drop() // the buffer was shrunk, so its slot cannot be reused; or other callers wait for its memory
		return
	}
	c.mu.Lock()
	c.putFree(s)
	c.mu.Unlock()
	c.budget.Nudge()
}
