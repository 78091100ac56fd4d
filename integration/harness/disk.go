package harness

import (
	"sync"
	"sync/atomic"
)

// Disk is a directory on a file system of its own. On demand it hangs like a failing device, or
// like an NFS mount without its server: no call returns. A process that is killed in such a call
// ends.
type Disk struct {
	Dir  string
	hung atomic.Int64

	mu      sync.Mutex    // guards resumed
	resumed chan struct{} // closed when the disk resumes; nil: it does not hang
}

// Hang makes each call wait until GoOn.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resumed == nil {
		d.resumed = make(chan struct{})
	}
}

// GoOn ends Hang.
func (d *Disk) GoOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resumed != nil {
		close(d.resumed)
		d.resumed = nil
	}
}

// Hung returns how many calls have waited.
func (d *Disk) Hung() int64 { return d.hung.Load() }
