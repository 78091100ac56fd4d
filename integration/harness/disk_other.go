//go:build !linux

package harness

import "testing"

// NewDisk returns a directory that never hangs: only Linux mounts a file system of ours.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	return &Disk{Dir: t.TempDir()}
}
