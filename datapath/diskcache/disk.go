package diskcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// step is a kind of call to the file system, for tests that let one of them fail.
type step string

const (
	stepCreate step = "create"
	stepWrite  step = "write"
	stepSync   step = "sync"
	stepClose  step = "close"
	stepRename step = "rename"
	stepRemove step = "remove"
	stepMkdir  step = "mkdir"
	stepOpen   step = "open"
	stepRead   step = "read"
)

// disk is every call to the file system that is made once the cache is open, below one root that no name leads out of.
type disk struct {
	root *os.Root
	// fault, if not nil, is asked before each call: an error fails it without its being made, and a write of b then
	// still writes the first part bytes. Tests set it.
	fault func(s step, name string) (part int, err error)
}

func (d *disk) ask(s step, name string) (int, error) {
	if d.fault == nil {
		return 0, nil
	}
	return d.fault(s, name)
}

// write makes a new file of the parts, on the medium when it returns, and removes what an error leaves of it. The errors
// of the file system name the call and the file.
func (d *disk) write(name string, parts ...[]byte) (err error) {
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
			_ = d.remove(name) // what stays is a stray, removed at the next start
		}
	}()
	for _, p := range parts {
		if err = d.append(f, name, p); err != nil {
			_ = f.Close()
			return err
		}
	}
	if err = d.sync(f, name); err != nil {
		_ = f.Close()
		return err
	}
	return d.close(f, name)
}

func (d *disk) create(name string) (*os.File, error) {
	if _, err := d.ask(stepCreate, name); err != nil {
		return nil, err
	}
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (d *disk) append(f *os.File, name string, b []byte) error {
	if part, err := d.ask(stepWrite, name); err != nil {
		_, _ = f.Write(b[:min(part, len(b))])
		return err
	}
	_, err := f.Write(b)
	return err
}

func (d *disk) sync(f *os.File, name string) error {
	if _, err := d.ask(stepSync, name); err != nil {
		return err
	}
	return f.Sync()
}

func (d *disk) close(f *os.File, name string) error {
	if _, err := d.ask(stepClose, name); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func (d *disk) rename(from, to string) error {
	if _, err := d.ask(stepRename, to); err != nil {
		return err
	}
	return d.root.Rename(from, to)
}

// remove removes a file. One that is not there any more is removed.
func (d *disk) remove(name string) error {
	_, err := d.ask(stepRemove, name)
	if err == nil {
		err = d.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *disk) mkdir(name string) error {
	if _, err := d.ask(stepMkdir, name); err != nil {
		return err
	}
	if err := d.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (d *disk) open(name string) (*os.File, error) {
	if _, err := d.ask(stepOpen, name); err != nil {
		return nil, err
	}
	return d.root.Open(name)
}

// readAt fills b from offset on.
func (d *disk) readAt(f *os.File, name string, b []byte, offset int64) error {
	if _, err := d.ask(stepRead, name); err != nil {
		return err
	}
	_, err := f.ReadAt(b, offset)
	return err
}

// space returns how many bytes the file system holds, and how many of them are free for this process.
func space(dir string) (total, free int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("ask for the space of %s: %w", dir, err)
	}
	block := int64(s.Bsize)
	return int64(s.Blocks) * block, int64(s.Bavail) * block, nil
}

// writable returns why a directory is not to be written to.
func writable(dir string) error {
	if err := syscall.Access(dir, 2); err != nil { // W_OK
		return fmt.Errorf("write %s: %w", dir, err)
	}
	return nil
}

// lock takes the lock of an open file, or fails at once.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
