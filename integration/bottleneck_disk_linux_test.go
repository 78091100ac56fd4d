package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// uncached drops the files of a disk tier from the page cache again and again, so that the gateway
// reads the disk itself.
func uncached(ctx context.Context, dir string) {
	for ctx.Err() == nil {
		names, _ := filepath.Glob(filepath.Join(dir, "chunks", "*", "*"))
		for _, name := range names {
			if f, err := os.Open(name); err == nil {
				_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
				f.Close()
			}
		}
		pause(ctx, 20*time.Millisecond)
	}
}
