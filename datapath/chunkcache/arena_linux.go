package chunkcache

import "golang.org/x/sys/unix"

// mapRegion maps n bytes of address space, with huge pages where the kernel has some.
func mapRegion(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // populates several times faster
	}
	return b, err
}

// populate has the kernel provide pages. One that cannot leaves it to the first fill.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
