package dirstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Put implements objstore.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (_ objstore.Object, err error) {
	defer objstore.Wrap(&err, "put %q", key)
	s.renew()
	if err := checkKey(key); err != nil {
		return objstore.Object{}, err
	}
	if size < 0 {
		return objstore.Object{}, fmt.Errorf("negative size %d", size)
	}
	if err := s.check(ctx, key, cond); err != nil { // an early check, before the bytes are written
		return objstore.Object{}, err
	}
	temp, info, err := s.writeTemp(ctx, key, body, size)
	if err != nil {
		return objstore.Object{}, err
	}
	if err := s.commit(ctx, temp, key, cond); err != nil {
		return objstore.Object{}, errors.Join(err, s.removeTemp(temp))
	}
	return object(key, info)
}

// writeTemp writes the body to a temporary file in the key's directory, and syncs it.
func (s *Store) writeTemp(ctx context.Context, key string, body io.ReaderAt, size int64) (string, fs.FileInfo, error) {
	temp := path.Join(path.Dir(key), tempPrefix+rand.Text())
	f, err := s.createTemp(temp)
	if err != nil {
		return "", nil, err
	}
	s.sweep(path.Dir(key))
	err = writeBody(ctx, f, body, size)
	if err == nil {
		// The file system's clock may not advance between two writes, and inodes may be reused.
		// With the nanoseconds of the system clock, the ETags differ.
		now := time.Now()
		err = mapError(s.root().Chtimes(temp, now, now))
	}
	if err == nil {
		err = mapError(f.Sync())
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
		err = mapError(err)
	}
	if cerr := mapError(f.Close()); err == nil {
		err = cerr
	}
	if err != nil {
		return "", nil, errors.Join(err, s.removeTemp(temp))
	}
	return temp, info, nil
}

// createTemp makes the file and its directories. It tries again if a Delete removes an empty
// directory in between.
func (s *Store) createTemp(temp string) (*os.File, error) {
	for attempt := 0; ; attempt++ {
		if err := s.root().MkdirAll(path.Dir(temp), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			if errors.Is(err, syscall.ENOTDIR) {
				return nil, fmt.Errorf("%w: %w", objstore.ErrDenied, err)
			}
			return nil, mapError(err)
		}
		f, err := s.root().OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, fs.ErrNotExist) && attempt < 10:
			continue
		case errors.Is(err, syscall.ENOTDIR):
			return nil, fmt.Errorf("%w: %w", objstore.ErrDenied, err)
		}
		return nil, mapError(err)
	}
}

// abandoned is the age of a temporary file, since its last write, from which on it counts as left
// by a killed writer.
const abandoned = 24 * time.Hour

// sweep removes abandoned files from a directory, when this process first writes there. It ignores
// errors, because such files only take space.
func (s *Store) sweep(dir string) {
	if _, done := s.swept.LoadOrStore(dir, true); done {
		return
	}
	d, err := s.root().Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(1024)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), tempPrefix) {
				continue
			}
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
				_ = s.removeTemp(path.Join(dir, e.Name()))
			}
		}
		if err != nil {
			return
		}
	}
}

func writeBody(ctx context.Context, f *os.File, body io.ReaderAt, size int64) error {
	buf := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := buf[:min(int64(len(buf)), size-at)]
		if n, err := body.ReadAt(p, at); n < len(p) {
			if errors.Is(err, io.EOF) {
				err = objstore.ErrShort
			}
			return fmt.Errorf("body at %d of %d bytes: %w", at+int64(n), size, err)
		}
		if _, err := f.Write(p); err != nil {
			return mapError(err)
		}
		at += int64(len(p))
	}
	return nil
}

func (s *Store) removeTemp(temp string) error {
	if err := s.root().Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mapError(err)
	}
	return nil
}

// check returns an error unless cond is met now.
func (s *Store) check(ctx context.Context, key string, cond objstore.Condition) error {
	if !cond.IfAbsent && cond.IfMatch == "" {
		return ctx.Err()
	}
	o, err := s.stat(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		if cond.IfMatch != "" {
			return fmt.Errorf("%w: it does not exist", objstore.ErrChanged)
		}
		return nil
	case err != nil:
		return err
	case cond.IfAbsent:
		return fmt.Errorf("%w: it exists", objstore.ErrChanged)
	case o.ETag != cond.IfMatch:
		return fmt.Errorf("%w: it is %s, expected %s", objstore.ErrChanged, o.ETag, cond.IfMatch)
	}
	return nil
}

// commit renames the finished file to the key, if cond is met at that moment.
func (s *Store) commit(ctx context.Context, temp, key string, cond objstore.Condition) error {
	unlock, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.check(ctx, key, cond); err != nil {
		return err
	}
	if err := s.rename(temp, key, cond); err != nil {
		return err
	}
	return s.syncDir(path.Dir(key))
}

func (s *Store) rename(temp, key string, cond objstore.Condition) error {
	if cond.IfAbsent {
		// Unlike a rename, a link does not replace a file that another program has written
		// meanwhile.
		err := s.root().Link(temp, key)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: it exists", objstore.ErrChanged)
		}
		if err == nil {
			return s.removeTemp(temp)
		}
		// Not every file system has hard links. Then only the lock prevents such a race.
	}
	if err := s.root().Rename(temp, key); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %w", objstore.ErrDenied, err) // the key is the name of a directory
		}
		return mapError(err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func (s *Store) syncDir(name string) error {
	d, err := s.root().Open(name)
	if err != nil {
		return mapError(err)
	}
	defer d.Close()
	// Some file systems cannot sync a directory, and offer no alternative.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return mapError(err)
	}
	return nil
}

// Delete implements objstore.Store. It also removes directories that become empty.
func (s *Store) Delete(ctx context.Context, key string) (err error) {
	defer objstore.Wrap(&err, "delete %q", key)
	if _, err := s.stat(ctx, key); errors.Is(err, objstore.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	unlock, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.removeTemp(key); err != nil {
		return err
	}
	for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
		if s.root().Remove(dir) != nil { // not empty
			return nil
		}
	}
	return nil
}

// acquire takes the lock that all writers of the directory share, in other processes too. It fails
// when ctx ends.
func (s *Store) acquire(ctx context.Context) (unlock func(), err error) {
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := s.flock(ctx)
	if err != nil {
		<-s.lock
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() {
		f.Close() // closing releases the lock
		<-s.lock
	}, nil
}

func (s *Store) flock(ctx context.Context) (*os.File, error) {
	f, err := s.root().OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, mapError(err)
	}
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) {
			return f, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, mapError(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		}
	}
}
