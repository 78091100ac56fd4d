// Package dirstore stores objects as the files of a directory, on a local disk or a mounted share.
// A key is the file's path below the directory, with slashes.
//
// An object's ETag consists of the file's size, modification time and inode, so a rewritten or
// replaced file is another version. A rewrite in place may keep the size and fall within one tick
// of the file system's clock. The ETag does not show such a rewrite, but digests do.
//
// Symbolic links to regular files are followed if they lead to files inside the directory. In a
// snapshot of Hugging Face's cache, whose files are links to the blobs of the same repository,
// these links are followed too. Follow opens a directory whose links are followed wherever they
// lead, to files and to directories. Only regular files are objects. Names that begin with
// ".millrace-tmp-" and the file ".millrace-lock" are the store's own. If the directory is replaced
// by another one at its path, the store opens the new one.
package dirstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/millrace-data/millrace/internal/objstore"
)

const (
	tempPrefix = ".millrace-tmp-"
	lockName   = ".millrace-lock"
	piece      = 4 << 20 // bytes read between two checks of the context
)

// Store is an objstore.Store in a directory.
type Store struct {
	path  string // path of the directory
	at    atomic.Pointer[directory]
	links bool          // all links are followed for reading, wherever they lead
	lock  chan struct{} // holds one token while a writer of this process commits
	swept sync.Map      // directories in which abandoned files were removed
}

// directory is the directory that the store's path led to when it was last checked.
type directory struct {
	*os.Root
	blobs *blobs // blobs of the cache if the directory is one of its snapshots; nil: it is not
}

// New opens the directory at root, which must exist.
func New(root string) (*Store, error) {
	r, err := os.OpenRoot(root)
	if info, statErr := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, missingError("no such directory")
	} else if err != nil && statErr == nil && !info.IsDir() {
		return nil, missingError("this is a file: use the directory that contains it")
	}
	if err != nil {
		return nil, fmt.Errorf("open directory: %w", unnamed(err))
	}
	s := &Store{path: root, lock: make(chan struct{}, 1)}
	s.at.Store(&directory{r, blobsOf(root)})
	return s, nil
}

func (s *Store) root() *directory { return s.at.Load() }

// renew returns the directory that the path leads to now, and opens it if it has changed. It does
// not close the old directory, because calls may still use it. The garbage collector closes it
// after the last of them.
func (s *Store) renew() *directory {
	was := s.root()
	is, err := os.Stat(s.path)
	if held, closed := was.Stat("."); err != nil || closed == nil && os.SameFile(held, is) {
		return was
	}
	if r, err := os.OpenRoot(s.path); err == nil {
		s.at.CompareAndSwap(was, &directory{r, blobsOf(s.path)})
	}
	return s.root()
}

// missingError is the error for a missing directory. It is an objstore.ErrNotFound.
type missingError string

func (m missingError) Error() string        { return string(m) }
func (m missingError) Is(target error) bool { return target == objstore.ErrNotFound }

// Follow does the same as New, but links are followed even out of the directory. Users that can
// make links there choose which files of this machine are listed and read, as far as this process
// may. Only the listed version is read, because a link that is changed afterwards has another ETag.
// Writes never leave the directory.
func Follow(root string) (*Store, error) {
	s, err := New(root)
	if err == nil {
		s.links = true
	}
	return s, err
}

// statFile describes the file or directory that a name leads to. The empty name stands for the
// directory itself.
func (s *Store) statFile(name string) (fs.FileInfo, error) {
	if s.links {
		return os.Stat(filepath.Join(s.path, filepath.FromSlash(name)))
	}
	root := s.root()
	info, err := root.Stat(cmp.Or(name, "."))
	if blob := root.blob(name, err); blob != "" {
		return root.blobs.root.Lstat(blob)
	}
	return info, err
}

// openFile opens the target of a name for reading. O_NONBLOCK prevents waiting for the other end of
// a named pipe.
func (s *Store) openFile(name string) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK
	if s.links {
		return os.OpenFile(filepath.Join(s.path, filepath.FromSlash(name)), flags, 0)
	}
	root := s.root()
	f, err := root.OpenFile(cmp.Or(name, "."), flags, 0)
	if blob := root.blob(name, err); blob != "" {
		return root.blobs.root.OpenFile(blob, flags|syscall.O_NOFOLLOW, 0)
	}
	return f, err
}

// Create does the same as New, but makes the directory and its parents if they do not exist.
func Create(root string) (*Store, error) {
	if err := os.MkdirAll(root, 0o777); err != nil {
		return nil, fmt.Errorf("create directory: %w", mapError(err))
	}
	return New(root)
}

// Close releases the directory. No call may be in progress.
func (s *Store) Close() error {
	if b := s.root().blobs; b != nil {
		_ = b.root.Close() // an error does not matter after reads only
	}
	return s.root().Close()
}

// own reports whether a key names one of the store's own files.
func own(key string) bool {
	base := path.Base(key)
	return key == lockName || strings.HasPrefix(base, tempPrefix)
}

func checkKey(key string) error {
	if err := objstore.CheckKey(key); err != nil {
		return err
	}
	if own(key) {
		return fmt.Errorf("key %q is reserved for the store", key)
	}
	return nil
}

// Stat implements objstore.Store.
func (s *Store) Stat(ctx context.Context, key string) (_ objstore.Object, err error) {
	defer objstore.Wrap(&err, "stat %q", key)
	s.renew()
	return s.stat(ctx, key)
}

func (s *Store) stat(ctx context.Context, key string) (objstore.Object, error) {
	if err := ctx.Err(); err != nil {
		return objstore.Object{}, err
	}
	if checkKey(key) != nil {
		return objstore.Object{}, objstore.ErrNotFound
	}
	info, err := s.statFile(key)
	if err != nil {
		return objstore.Object{}, unnamed(err)
	}
	return object(key, info)
}

// object describes the file of info, which must be a regular one.
func object(key string, info fs.FileInfo) (objstore.Object, error) {
	if !info.Mode().IsRegular() {
		return objstore.Object{}, fmt.Errorf("%w: not a regular file", objstore.ErrNotFound)
	}
	var inode uint64
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = uint64(st.Ino)
	}
	return objstore.Object{
		Key:      key,
		Size:     info.Size(),
		ETag:     fmt.Sprintf("%x-%x-%x", info.Size(), info.ModTime().UnixNano(), inode),
		Modified: info.ModTime(),
	}, nil
}

// openVersion opens the file of ref and checks its version. After an error it tries again if the
// directory has been replaced.
func (s *Store) openVersion(ctx context.Context, ref objstore.Ref) (*os.File, objstore.Object, error) {
	was := s.root()
	f, o, err := s.openOnce(ctx, ref)
	if err != nil && s.renew() != was {
		f, o, err = s.openOnce(ctx, ref)
	}
	if ref.ETag != "" && errors.Is(err, objstore.ErrNotFound) && s.gone() {
		err = fmt.Errorf("%w: the directory of the object is missing or empty: mount it again", objstore.ErrUnavailable)
	}
	return f, o, err
}

// gone reports whether the path leads to no directory, or to an empty one, such as a mount point
// without its mount.
func (s *Store) gone() bool {
	d, err := os.Open(s.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

func (s *Store) openOnce(ctx context.Context, ref objstore.Ref) (*os.File, objstore.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, objstore.Object{}, err
	}
	if checkKey(ref.Key) != nil {
		return nil, objstore.Object{}, objstore.ErrNotFound
	}
	if ref.VersionID != "" {
		return nil, objstore.Object{}, fmt.Errorf("%w: a directory has no object versions, such as %q", objstore.ErrNotFound, ref.VersionID)
	}
	if s.links { // never open a device that a link leads to
		if _, err := s.stat(ctx, ref.Key); err != nil {
			return nil, objstore.Object{}, err
		}
	}
	f, err := s.openFile(ref.Key)
	if err != nil {
		if err = unnamed(err); ref.ETag != "" && errors.Is(err, errEscapes) { // the key was a file when its ETag was listed
			err = fmt.Errorf("%w: %w", objstore.ErrChanged, errEscapes)
		}
		return nil, objstore.Object{}, err
	}
	o, err := current(f, ref.Key, ref.ETag)
	if err != nil {
		f.Close()
		return nil, objstore.Object{}, err
	}
	return f, o, nil
}

// current describes the open file f, or returns ErrChanged if it is not the version etag.
func current(f *os.File, key, etag string) (objstore.Object, error) {
	info, err := f.Stat()
	if err != nil {
		return objstore.Object{}, mapError(err)
	}
	o, err := object(key, info)
	if err == nil && etag != "" && o.ETag != etag {
		err = fmt.Errorf("%w: it is %s, expected %s", objstore.ErrChanged, o.ETag, etag)
	}
	return o, err
}

// ReadRange implements objstore.RangeReader.
func (s *Store) ReadRange(ctx context.Context, ref objstore.Ref, offset int64, dst ...[]byte) (err error) {
	defer objstore.Wrap(&err, "read %q at %d", ref.Key, offset)
	n, err := objstore.CheckRange(offset, dst)
	if err != nil {
		return err
	}
	f, o, err := s.openVersion(ctx, ref)
	if err != nil {
		return err
	}
	defer f.Close()
	if offset+n > o.Size {
		return fmt.Errorf("%w: %d bytes requested, but the object has %d", objstore.ErrShort, n, max(0, o.Size-offset))
	}
	readErr := readAll(ctx, f, offset, dst)
	// A file that was rewritten during the read has another state now.
	if _, err := current(f, ref.Key, o.ETag); err != nil {
		return err
	}
	return readErr
}

func readAll(ctx context.Context, f *os.File, offset int64, dst [][]byte) error {
	report, start := objstore.Progress(ctx), offset
	for _, d := range dst {
		for len(d) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := f.ReadAt(d[:min(len(d), piece)], offset)
			offset += int64(n)
			d = d[n:]
			report(offset - start)
			if errors.Is(err, io.EOF) && len(d) > 0 {
				return fmt.Errorf("%w: the file ends at %d", objstore.ErrShort, offset)
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return mapError(err)
			}
		}
	}
	return nil
}

// Open implements objstore.Store.
func (s *Store) Open(ctx context.Context, ref objstore.Ref, offset int64) (_ io.ReadCloser, err error) {
	defer objstore.Wrap(&err, "open %q at %d", ref.Key, offset)
	if offset < 0 {
		return nil, fmt.Errorf("negative offset %d", offset)
	}
	f, o, err := s.openVersion(ctx, ref)
	if err != nil {
		return nil, err
	}
	if offset > o.Size {
		f.Close()
		return nil, fmt.Errorf("%w: the object has %d bytes", objstore.ErrShort, o.Size)
	}
	return &reader{ctx: ctx, file: f, object: o, offset: offset}, nil
}

// reader reads one version of a file in sequence.
type reader struct {
	ctx    context.Context
	file   *os.File
	object objstore.Object
	offset int64
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // unwrapped io.EOF is the reader's own end; a wrapped one is a fault
		return 0, fmt.Errorf("read %q at %d: %w", r.object.Key, r.offset, err)
	}
	r.offset += int64(n)
	return n, err
}

func (r *reader) read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	want := min(int64(len(p)), piece, r.object.Size-r.offset)
	n, err := r.file.ReadAt(p[:want], r.offset)
	if _, changed := current(r.file, r.object.Key, r.object.ETag); changed != nil {
		return 0, changed
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return 0, mapError(err)
	case int64(n) < want:
		return 0, fmt.Errorf("%w: the file ends early", objstore.ErrShort)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (r *reader) Close() error { return r.file.Close() }

// errEscapes reports that a link is not followed.
var errEscapes = errors.New("a link leads out of the directory: to follow it, set links=follow in the dataset's address")

// mapError wraps an error of the file system in an error of the vocabulary.
func mapError(err error) error {
	kind := objstore.ErrUnavailable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ENXIO):
		kind = objstore.ErrNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EISDIR),
		errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EXDEV), strings.Contains(err.Error(), "path escapes"):
		kind = objstore.ErrDenied
	}
	if strings.Contains(err.Error(), "path escapes") {
		err = errEscapes
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// unnamed does the same as mapError without the path, for callers whose message already has it.
func unnamed(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return mapError(err)
}
