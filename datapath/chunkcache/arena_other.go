//go:build !linux

package chunkcache

import "golang.org/x/sys/unix"

// mapRegion maps n bytes of address space.
func mapRegion(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// populate does nothing: this system has no such flag, so the first fill allocates the pages.
func populate([]byte) {}
