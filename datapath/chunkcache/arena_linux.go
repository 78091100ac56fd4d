package chunkcache

import "golang.org/x/sys/unix"

// mapRegion maps n bytes of address space, with huge pages if available.
func mapRegion(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // populating is several times faster with huge pages
	}
	return b, err
}

// populate allocates the pages. If the kernel cannot do that, the first fill allocates them.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
