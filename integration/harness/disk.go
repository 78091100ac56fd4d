package harness

import (
	"sync"
	"sync/atomic"
)

// Disk is a directory on a file system of its own, which hangs on demand as a failing device does, or an NFS mount without its
// server: no call ends. Whoever is killed meanwhile ends.
type Disk struct {
	Dir  string
	hung atomic.Int64

	mu     sync.Mutex    // guards goesOn
	goesOn chan struct{} // closed when the disk goes on; nil: it does not hang
}

// Hang lets each call wait from now on, until GoOn.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.goesOn == nil {
		d.goesOn = make(chan struct{})
	}
}

// GoOn ends Hang.
func (d *Disk) GoOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.goesOn != nil {
		close(d.goesOn)
		d.goesOn = nil
	}
}

// Hung returns how many calls have waited.
func (d *Disk) Hung() int64 { return d.hung.Load() }
