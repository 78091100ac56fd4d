package chunkcache

import (
	"context"
	"os"
)

// Buffer is memory for bytes that are no chunk, in a slot: used again and outside the collector's
// sight like those of the chunks.
type Buffer[K comparable] struct {
	cache *Cache[K]
	slot  *slot // nil: closed
}

// Buffer returns n bytes of any content. Unlike Start it waits for memory, as the budget does, so
// its caller must not hold anything that others wait for.
func (c *Cache[K]) Buffer(ctx context.Context, n int64) (*Buffer[K], error) {
	class := classOf(n)
	if class+entryCost > c.budget.Total() {
		class = max(n, c.budget.Total()-entryCost) // all there is: not worth a refusal
	}
	var s *slot // a free one, found when it is this caller's turn
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

// TryBuffer returns n bytes of any content, of memory that is free or of chunks that no reader comes for soon; false
// if there are none, or not beside those that others wait for.
func (c *Cache[K]) TryBuffer(n int64) (*Buffer[K], bool) { return c.tryOrPass(n, false) }

// TryWork is TryBuffer for memory to work in: the kernel provides its pages when they are written, since much of it may never be.
func (c *Cache[K]) TryWork(n int64) (*Buffer[K], bool) { return c.tryOrPass(n, true) }

// tryOrPass is TryBuffer. While others wait it takes no free slot, since the budget counts only what is reserved as passing
// those: the slot is given back, and its bytes are reserved.
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

// tryBuffer takes a slot of memory that is free, that reserve grants, or of chunks that no reader comes for soon.
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

// open makes a slot ready for n bytes.
func (c *Cache[K]) open(s *slot, n int64) (*Buffer[K], error) {
	s.length = n
	if err := s.ready(); err != nil {
		s.drop()
		return nil, err
	}
	return &Buffer[K]{cache: c, slot: s}, nil
}

// Bytes returns the memory, until Close.
func (b *Buffer[K]) Bytes() []byte { return b.slot.bytes() }

// Cost returns the bytes of the budget that Close gives back.
func (b *Buffer[K]) Cost() int64 { return b.slot.held.Size() }

// Shrink gives back what lies behind the first n bytes, in whole pages.
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

// Close gives the memory back. A second call does nothing.
func (b *Buffer[K]) Close() {
	c, s := b.cache, b.slot
	if s == nil {
		return
	}
	b.slot = nil
	if s.held.Size() != s.cost() || s.held.Passed() {
		s.drop() // not all of it is reserved, so it cannot become a free slot; or others wait for it
		return
	}
	c.mu.Lock()
	c.putFree(s)
	c.mu.Unlock()
	c.budget.Nudge()
}
