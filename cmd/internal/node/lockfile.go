package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errReleased is the cause of a context that ended because no process holds the node's lock any more.
var errReleased = errors.New("no process holds the lock any more")

// lockInterval is the time between two checks of the lock.
const lockInterval = 500 * time.Millisecond

// lockFile keeps the node running while other processes hold a shared lock (flock) on a file. The
// kernel releases a lock when its process ends for any reason. A forked child shares its parent's
// lock.
type lockFile struct {
	file   *os.File
	linger time.Duration
}

// hold opens the lock file, if one is configured.
func (s *Node) hold() error {
	if s.cfg.WhileLocked == "" || s.cfg.Check {
		return nil
	}
	f, err := os.OpenFile(s.cfg.WhileLocked, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return settingError("while-locked", err)
	}
	s.lock = &lockFile{f, s.cfg.Linger}
	s.closers = append(s.closers, func() { f.Close() }) // also releases the lock, which a late process waits for
	return nil
}

// watch calls end when no other process has held the lock for the time linger. The node then holds
// the lock itself until it exits. A process that requests the lock meanwhile gets it after that,
// and can tell that it must start a new node.
func (h *lockFile) watch(ctx context.Context, end context.CancelCauseFunc) error {
	look := time.Tick(lockInterval)
	last := time.Now()
	for {
		switch err := syscall.Flock(int(h.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			last = time.Now()
		case err != nil && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("while-locked: lock %s: %w", h.file.Name(), err)
		case err == nil && time.Since(last) >= h.linger:
			end(errReleased)
			return nil
		case err == nil:
			_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		}
	}
}
