package shared

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memory is an unnamed file, mapped by this process for writing. Its length is fixed, and no other
// process can get write access.
type memory struct {
	descriptor int
	bytes      []byte // nil: unmapped
}

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL

// newMemory makes memory of size bytes, all of which are allocated.
func newMemory(size int) (_ *memory, err error) {
	made, err := unix.MemfdCreate("millrace", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // a kernel older than 6.3
		made, err = unix.MemfdCreate("millrace", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("create shared memory: %w", err)
	}
	// F_SETLEASE counts only file descriptions opened by a path, so it ignores the one from
	// MemfdCreate.
	descriptor, err := reopen(made, unix.O_RDWR)
	unix.Close(made)
	if err != nil {
		return nil, err
	}
	m := &memory{descriptor: descriptor}
	defer func() {
		if err != nil {
			m.close()
			err = fmt.Errorf("create %d bytes of shared memory: %w", size, err)
		}
	}()
	if err := unix.Ftruncate(descriptor, int64(size)); err != nil {
		return nil, err
	}
	// Without this, a write would kill the process on a machine that is out of memory.
	if err := unix.Fallocate(descriptor, 0, 0, int64(size)); err != nil {
		return nil, err
	}
	if m.bytes, err = unix.Mmap(descriptor, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return nil, err
	}
	_, err = unix.FcntlInt(uintptr(descriptor), unix.F_ADD_SEALS, seals)
	return m, err
}

// reopen opens the file of a descriptor again.
func reopen(descriptor, flags int) (int, error) {
	again, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", descriptor), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("reopen shared memory: %w", err)
	}
	return again, nil
}

// reader returns a read-only descriptor of the memory. The caller closes it.
func (m *memory) reader() (int, error) { return reopen(m.descriptor, unix.O_RDONLY) }

// held reports whether another process has the memory open or mapped, or its descriptor is being
// sent to another process.
func (m *memory) held() bool {
	if _, err := unix.FcntlInt(uintptr(m.descriptor), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return true
	}
	_, err := unix.FcntlInt(uintptr(m.descriptor), unix.F_SETLEASE, unix.F_UNLCK)
	return err != nil
}

// unmap unmaps the memory in this process. Other processes that have mapped it keep it.
func (m *memory) unmap() {
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
		m.bytes = nil
	}
}

// close unmaps the memory and closes its descriptor in this process.
func (m *memory) close() {
	m.unmap()
	_ = unix.Close(m.descriptor)
}

func closeDescriptor(descriptor int) { _ = unix.Close(descriptor) }

// probe returns the reason why this machine cannot lend memory, or nil.
func probe() error {
	m, err := newMemory(os.Getpagesize())
	if err != nil {
		return err
	}
	defer m.close()
	if m.held() {
		return errNoLeases
	}
	reader, err := m.reader()
	if err != nil {
		return err
	}
	held := m.held()
	closeDescriptor(reader)
	if !held || m.held() {
		return errNoLeases
	}
	return nil
}

var errNoLeases = errors.New("the kernel does not report whether memory is still held")

// mostDescriptors returns the maximum number of segments. It leaves most of the open files to
// connections, the store and the index.
func mostDescriptors() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return mostSegments
	}
	return int(min(mostSegments, limit.Cur/8))
}
