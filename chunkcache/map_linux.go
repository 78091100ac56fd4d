package chunkcache

import "golang.org/x/sys/unix"

// mapSlot maps n bytes and populates them, so that no read or fill stops at a page fault.
func mapSlot(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
}

func unmapSlot(b []byte) error { return unix.Munmap(b) }
