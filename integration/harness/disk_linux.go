package harness

import (
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// NewDisk mounts a disk until the test ends. It needs root and /dev/fuse.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	root, err := fs.NewLoopbackRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{Dir: t.TempDir()}
	server, err := fuse.NewServer(&hanging{fs.NewNodeFS(root, &fs.Options{}), d}, d.Dir, &fuse.MountOptions{Name: "millrace", DirectMountStrict: true})
	if err != nil {
		t.Fatalf("mount a file system that hangs: %v; run this test as root where there is /dev/fuse, in a privileged container say", err)
	}
	go server.Serve()
	t.Cleanup(func() {
		d.GoOn()
		if err := unix.Unmount(d.Dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", d.Dir, err)
		}
		// The server exits when the last mount namespace with a copy of the mount is gone,
		// which may be a container's. No code waits for it.
	})
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	return d
}

// hanging is the file system of a disk: a directory of the machine whose calls wait while the disk
// hangs. The kernel caches nothing of it. Flush and Release do not wait, so that processes can
// exit.
type hanging struct {
	fuse.RawFileSystem
	disk *Disk
}

// wait waits while the disk hangs, unless the caller is interrupted.
func (h *hanging) wait(interrupted <-chan struct{}) fuse.Status {
	h.disk.mu.Lock()
	resumed := h.disk.resumed
	h.disk.mu.Unlock()
	if resumed == nil {
		return fuse.OK
	}
	h.disk.hung.Add(1)
	select {
	case <-resumed:
		return fuse.OK
	case <-interrupted:
		return fuse.Status(syscall.EINTR)
	}
}

// then waits while the disk hangs, and then makes a call.
func (h *hanging) then(interrupted <-chan struct{}, call func() fuse.Status) fuse.Status {
	if s := h.wait(interrupted); !s.Ok() {
		return s
	}
	return call()
}

func (h *hanging) Lookup(c <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.Lookup(c, in, name, out) })
}

func (h *hanging) GetAttr(c <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.GetAttr(c, in, out) })
}

func (h *hanging) StatFs(c <-chan struct{}, in *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.StatFs(c, in, out) })
}

func (h *hanging) Mkdir(c <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.Mkdir(c, in, name, out) })
}

func (h *hanging) Unlink(c <-chan struct{}, in *fuse.InHeader, name string) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.Unlink(c, in, name) })
}

func (h *hanging) Rename(c <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.Rename(c, in, from, to) })
}

func (h *hanging) Create(c <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return h.then(c, func() fuse.Status {
		s := h.RawFileSystem.Create(c, in, name, out)
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
		return s
	})
}

func (h *hanging) Open(c <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return h.then(c, func() fuse.Status {
		s := h.RawFileSystem.Open(c, in, out)
		out.OpenFlags = fuse.FOPEN_DIRECT_IO
		return s
	})
}

func (h *hanging) Read(c <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if s := h.wait(c); !s.Ok() {
		return nil, s
	}
	return h.RawFileSystem.Read(c, in, buf)
}

func (h *hanging) Write(c <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if s := h.wait(c); !s.Ok() {
		return 0, s
	}
	return h.RawFileSystem.Write(c, in, data)
}

func (h *hanging) Writev(c <-chan struct{}, in *fuse.WriteIn, data [][]byte) (uint32, fuse.Status) {
	if s := h.wait(c); !s.Ok() {
		return 0, s
	}
	return h.RawFileSystem.Writev(c, in, data)
}

func (h *hanging) Fsync(c <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.Fsync(c, in) })
}

func (h *hanging) ReadDirPlus(c <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return h.then(c, func() fuse.Status { return h.RawFileSystem.ReadDirPlus(c, in, out) })
}
