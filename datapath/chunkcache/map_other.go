//go:build !linux

package chunkcache

import "golang.org/x/sys/unix"

// mapSlot maps n bytes. The first fill populates them: there is no flag for it here.
func mapSlot(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmapSlot(b []byte) error { return unix.Munmap(b) }
