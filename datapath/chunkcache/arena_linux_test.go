package chunkcache

import (
	"context"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a load or a decoder may need beside a chunk has no pages before it is written.
func TestMemoryToWorkInHasNoPagesYet(t *testing.T) {
	const size, beside = 1 << 20, 64 << 20
	c, _ := newCache(t, 4*Cost(beside))
	const most = beside / 4 // huge pages may reach into it from the slots on either side
	l, err := acquire(t.Context(), c, asking{
		Wants: []Chunk[int]{{Key: 1, Size: size, Beside: beside}},
		Request: Request[int]{Load: func(ctx context.Context, fills []*Fill[int]) error {
			if n := present(t, fills[0].Beside()); n > most {
				t.Errorf("got %d bytes of memory beside a chunk before the load, want at most %d", n, most)
			}
			return load(ctx, fills)
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c.Drop()
	work, ok := c.TryWork(beside)
	if !ok {
		t.Fatal("no memory to work in, with all of it free")
	}
	if n := present(t, work.Bytes()); n > most {
		t.Errorf("got %d bytes of memory to work in, want at most %d", n, most)
	}
	work.Close()
}

// present returns how many bytes of some memory the kernel has provided pages for.
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
