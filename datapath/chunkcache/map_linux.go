package chunkcache

import "golang.org/x/sys/unix"

// mapSlot maps n bytes and populates them, so that no read or fill stops at a page fault. Huge pages
// make that several times cheaper. Kernels that cannot do either leave it to the first fill.
func mapSlot(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	return b, nil
}

func unmapSlot(b []byte) error { return unix.Munmap(b) }
