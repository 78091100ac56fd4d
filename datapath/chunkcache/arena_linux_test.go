package chunkcache

import (
	"context"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The additional memory of a load or a decoder has no pages until it is written.
func TestMemoryToWorkInHasNoPagesYet(t *testing.T) {
	const size, extra = 1 << 20, 64 << 20
	c, _ := newCache(t, 4*Cost(extra))
	const most = extra / 4 // huge pages of the neighbouring slots may extend into it
	l, err := acquire(t.Context(), c, asking{
		Wants: []Chunk[int]{{Key: 1, Size: size, Extra: extra}},
		Request: Request[int]{Load: func(ctx context.Context, fills []*Fill[int]) error {
			if n := present(t, fills[0].Extra()); n > most {
				t.Errorf("got %d additional bytes of memory before the load, want at most %d", n, most)
			}
			return load(ctx, fills)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c.Drop()
	work, ok := c.TryWork(extra)
	if !ok {
		t.Fatal("no memory to work in, with all of it free")
	}
	if n := present(t, work.Bytes()); n > most {
		t.Errorf("got %d bytes of memory to work in, want at most %d", n, most)
	}
	work.Close()
}

// present returns the number of bytes of a memory region that are backed by pages.
func present(t *testing.T, b []byte) (n int) {
	t.Helper()
	page := os.Getpagesize()
	pages := make([]byte, (len(b)+page-1)/page)
	_, _, fault := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(unsafe.Pointer(&pages[0])))
	if fault != 0 {
		t.Fatal(fault)
	}
	for _, there := range pages {
		n += int(there&1) * page
	}
	return n
}

// Freed memory has no pages. This covers the memory of a cleared slot, and the freed part of a
// buffer.
func TestArena_GivesPagesBack(t *testing.T) {
	const size = 8 << 20
	c, _ := newCache(t, 4*Cost(size))
	other, err := c.Buffer(t.Context(), size) // keeps the arena mapped
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	own, err := c.Buffer(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	whole := own.Bytes()
	if got := present(t, whole); populates(t) && got != size {
		t.Errorf("got %d bytes of memory in a buffer, want all %d before the first write", got, size)
	}
	whole[0], whole[size-1] = 1, 1
	own.Shrink(size / 4)
	if got := present(t, whole); got != size/4 {
		t.Errorf("got %d bytes of memory in a buffer that was shrunk, want %d", got, size/4)
	}
	own.Close()
	if got := present(t, whole); got != 0 {
		t.Errorf("got %d bytes of memory in a slot that was given back, want none", got)
	}
}

// populates reports whether the kernel supports populating pages on request (Linux 5.14 or later).
func populates(t *testing.T) bool {
	t.Helper()
	b, err := mapRegion(os.Getpagesize())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	return unix.Madvise(b, unix.MADV_POPULATE_WRITE) == nil
}
