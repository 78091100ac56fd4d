package diskcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// step is the name of a file system call, for tests that make one of them fail.
type step string

// disk makes all file system calls of an open cache, below one root that no name can escape.
type disk struct {
	root *os.Root
	// fault, if not nil, is called before each file system call. If it returns an error, the
	// call fails without being made; a write still writes the first part bytes. Tests set it.
	fault func(s step, name string) (part int, err error)
}

// do makes a file system call.
func (d *disk) do(s step, name string, call func() error) error {
	if d.fault != nil {
		if _, err := d.fault(s, name); err != nil {
			return err
		}
	}
	return call()
}

// write creates a file, writes the bytes that content passes to add, and syncs it. After an error
// it removes the partial file. The errors of the file system name the call and the file.
func (d *disk) write(name string, content func(add func(b []byte) error) error) (err error) {
	f, err := d.create(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.mkdir(path.Dir(name)); err == nil {
			f, err = d.create(name)
		}
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = d.remove(name) // if removing fails, the next start removes the file
		}
	}()
	if err := content(func(b []byte) error { return d.append(f, name, b) }); err != nil {
		return err
	}
	if err := d.do("sync", name, f.Sync); err != nil {
		return err
	}
	return d.do("close", name, f.Close)
}

func (d *disk) create(name string) (f *os.File, err error) {
	err = d.do("create", name, func() error {
		f, err = d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		return err
	})
	return f, err
}

func (d *disk) append(f *os.File, name string, b []byte) error {
	if d.fault != nil {
		if part, err := d.fault("write", name); err != nil {
			_, _ = f.Write(b[:min(part, len(b))])
			return err
		}
	}
	_, err := f.Write(b)
	return err
}

func (d *disk) rename(from, to string) error {
	return d.do("rename", to, func() error { return d.root.Rename(from, to) })
}

// remove removes a file. It returns nil if the file does not exist.
func (d *disk) remove(name string) error {
	err := d.do("remove", name, func() error { return d.root.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *disk) mkdir(name string) error {
	err := d.do("mkdir", name, func() error { return d.root.Mkdir(name, 0o700) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func (d *disk) open(name string) (f *os.File, err error) {
	err = d.do("open", name, func() error {
		f, err = d.root.Open(name)
		return err
	})
	return f, err
}

// readAt reads len(b) bytes at offset.
func (d *disk) readAt(f *os.File, name string, b []byte, offset int64) error {
	return d.do("read", name, func() error {
		_, err := f.ReadAt(b, offset)
		return err
	})
}

// space returns the size of the file system and the space available to this process, in bytes.
func space(dir string) (total, free int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("get the free space of %s: %w", dir, err)
	}
	block := int64(s.Bsize)
	return int64(s.Blocks) * block, int64(s.Bavail) * block, nil
}

// DefaultSize returns the default limit of a cache in dir: 4/5 of the sum of the free space and the
// files in dir, so that a restart computes the same limit.
func DefaultSize(dir string) (int64, error) {
	var held int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				held += info.Size()
			}
		}
		return nil // files that cannot be read do not count
	})
	_, free, err := space(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		_, free, err = space(dir)
	}
	return (free + held) / 5 * 4, err
}

// writable returns an error if a directory is not writable.
func writable(dir string) error {
	if err := syscall.Access(dir, 2); err != nil { // W_OK
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}

// lock locks an open file, or fails immediately if it is locked.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
