package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// errReleased is the cause of a context that ended since nobody holds the file of the node any more.
var errReleased = errors.New("nobody holds the lock any more")

// lookAtLock is how often a held file is looked at.
const lookAtLock = 500 * time.Millisecond

// lockFile keeps the node running while other processes hold a shared lock (flock) on it. The
// kernel releases a lock however its process ends. A forked child holds its parent's.
type lockFile struct {
	file   *os.File
	linger time.Duration
}

// hold opens the file whose lock keeps the node running, if there is one.
func (s *Node) hold() error {
	if s.cfg.WhileLocked == "" || s.cfg.Check {
		return nil
	}
	f, err := os.OpenFile(s.cfg.WhileLocked, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &SettingError{"while-locked", err}
	}
	s.lock = &lockFile{f, s.cfg.Linger}
	s.closers = append(s.closers, func() { f.Close() }) // and with it the lock, which whoever comes last waits for
	return nil
}

// watch calls end when no other process has held the lock for the time to linger. From then on the node has the lock itself, to its end:
// a process that comes meanwhile gets it when the node is gone, and knows that it has to start another.
func (h *lockFile) watch(ctx context.Context, end context.CancelCauseFunc) error {
	look := time.NewTicker(lookAtLock)
	defer look.Stop()
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
		case <-look.C:
		}
	}
}
