package tempfile

import (
	"os"
	"syscall"
)

// Release frees the space of n bytes of a file, which then read as zeros, if the file system
// supports that.
func Release(f *os.File, off, n int64) {
	const punchHole, keepSize = 2, 1
	_ = syscall.Fallocate(int(f.Fd()), punchHole|keepSize, off, n)
}
