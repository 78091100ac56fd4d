package harness

import (
	"sync"
	"sync/atomic"
)

// Disk is a directory on a separate file system. On demand it hangs like a failing device, or like
// an NFS mount without its server: no system call returns. A process can be killed in such a call.
type Disk struct {
	Dir  string
	hung atomic.Int64

	mu      sync.Mutex    // guards resumed
	resumed chan struct{} // closed when the disk resumes; nil: it is not hanging
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

// Hung returns the number of calls that have waited.
func (d *Disk) Hung() int64 { return d.hung.Load() }
