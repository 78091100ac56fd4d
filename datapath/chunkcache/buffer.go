package chunkcache

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Buffer is memory for bytes that are no chunk, in a slot: used again and outside the collector's
// sight like those of the chunks.
type Buffer[K comparable] struct {
	cache *Cache[K]
	slot  *slot // nil: closed
	data  []byte
}

// Buffer returns n bytes of any content. Unlike Start it waits for memory, as the budget does, so
// its caller must not hold anything that others wait for.
func (c *Cache[K]) Buffer(ctx context.Context, n int64) (*Buffer[K], error) {
	class := classOf(n)
	if class+entryCost > c.budget.Total() {
		class = max(n, c.budget.Total()-entryCost) // all there is: not worth a refusal
	}
	s, err := c.bufferSlot(ctx, class, n)
	if err != nil {
		return nil, err
	}
	if err := s.ready(); err != nil {
		s.drop()
		return nil, err
	}
	return &Buffer[K]{cache: c, slot: s, data: s.buf[:n:n]}, nil
}

// TryBuffer returns n bytes of any content, of memory that is free or of chunks that no reader comes for soon; false
// if there are none, or somebody waits for them.
func (c *Cache[K]) TryBuffer(n int64) (*Buffer[K], bool) {
	if c.budget.Waiting() > 0 {
		return nil, false
	}
	c.mu.Lock()
	slots := c.takeSlots([]int64{n}, Soon)
	c.mu.Unlock()
	if slots == nil {
		return nil, false
	}
	if slots[0].ready() != nil {
		slots[0].drop()
		return nil, false
	}
	return &Buffer[K]{cache: c, slot: slots[0], data: slots[0].buf[:n:n]}, true
}

// bufferSlot takes a free slot or reserves a new one. A slot that somebody waits for goes through the
// budget, which knows whose turn it is.
func (c *Cache[K]) bufferSlot(ctx context.Context, class, n int64) (*slot, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if c.budget.Waiting() == 0 {
		c.mu.Lock()
		s := c.takeFree(class)
		c.mu.Unlock()
		if s != nil {
			return s, nil
		}
	}
	held, err := c.budget.Reserve(ctx, min(class+entryCost, max(n, c.budget.Total())))
	if err != nil {
		return nil, err
	}
	return &slot{class: class, held: held}, nil
}

// Bytes returns the memory, until Close.
func (b *Buffer[K]) Bytes() []byte { return b.data }

// Cost returns the bytes of the budget that Close gives back.
func (b *Buffer[K]) Cost() int64 { return b.slot.held.Size() }

// Shrink gives back what lies behind the first n bytes, in whole pages.
func (b *Buffer[K]) Shrink(n int64) {
	page := int64(os.Getpagesize())
	keep := (n + page - 1) / page * page
	if b.slot.class <= heapClass || keep >= b.slot.class {
		return
	}
	_ = unix.Madvise(b.slot.buf[keep:], unix.MADV_DONTNEED) // where it fails the pages stay until Close
	b.data = b.data[:n:n]
	b.slot.held.Shrink(keep + entryCost)
}

// Close gives the memory back. A second call does nothing.
func (b *Buffer[K]) Close() {
	c := b.cache
	c.mu.Lock()
	s := b.slot
	b.slot, b.data = nil, nil
	switch {
	case s == nil:
	case s.held.Size() != s.cost():
		s.drop() // it could not be reserved in full, so it cannot become a free slot
	default:
		c.putFree(s)
	}
	c.mu.Unlock()
	if s != nil {
		c.budget.Nudge()
	}
}
