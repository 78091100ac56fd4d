package tempfile

import (
	"os"
	"syscall"
)

// Release gives back the space of n bytes of a file, which read as zeros from then on, where the file system can do that.
func Release(f *os.File, off, n int64) {
	const punchHole, keepSize = 2, 1
	_ = syscall.Fallocate(int(f.Fd()), punchHole|keepSize, off, n)
}
