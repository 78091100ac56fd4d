//go:build !linux

package harness

import "testing"

// NewDisk returns a directory that never hangs: only Linux can mount the harness's own file system.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	return &Disk{Dir: t.TempDir()}
}
