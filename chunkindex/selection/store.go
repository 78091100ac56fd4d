package selection

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/millrace-data/millrace/internal/objstore"
	"github.com/millrace-data/millrace/internal/tempfile"
)

// Key prefixes of the objects, relative to the dataset's prefix.
const (
	subsetDir     = ".millrace/subset/"
	defaultPrefix = subsetDir + "default-" // followed by the generation
	quarantineDir = ".millrace/quarantine/"
	costDir       = ".millrace/cost/"
	costNames     = costDir + "name-" // followed by the generation, a dash and the name
)

// maxName limits the size of an object that names another one.
const maxName = 1 << 10

// Config locates the splits, quarantines and cost tables of one dataset.
type Config struct {
	Reader objstore.Reader
	Writer objstore.Writer // nil: read-only
	Prefix string          // the dataset's location in the store: empty, or ending in a slash
	Dir    string          // directory for temporary files; empty: the system's default
}

// Store provides the splits, quarantines and cost tables of one dataset. It is safe for concurrent use.
type Store struct{ cfg Config }

// New returns the Store of a dataset. It sends no request to the store.
func New(cfg Config) (*Store, error) {
	if cfg.Reader == nil {
		return nil, errors.New("selection: no store")
	}
	if cfg.Prefix != "" && !strings.HasSuffix(cfg.Prefix, "/") {
		return nil, fmt.Errorf("selection: prefix %q does not end in a slash", cfg.Prefix)
	}
	return &Store{cfg: cfg}, nil
}

// stat finds an object named by its digest.
func (s *Store) stat(ctx context.Context, dir, digest string) (objstore.Object, error) {
	if !isDigest(digest) {
		return objstore.Object{}, ErrNotFound
	}
	obj, err := s.cfg.Reader.Stat(ctx, s.cfg.Prefix+dir+digest)
	if errors.Is(err, objstore.ErrNotFound) {
		return obj, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return obj, err
}

// read returns a whole object of at most most bytes, and verifies its digest.
func (s *Store) read(ctx context.Context, dir, digest string, most int64) ([]byte, error) {
	obj, err := s.stat(ctx, dir, digest)
	if err != nil {
		return nil, err
	}
	if obj.Size == 0 || obj.Size > most {
		return nil, corrupt("it has %d bytes: must be from 1 to %d", obj.Size, most)
	}
	b := make([]byte, obj.Size)
	if err := s.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != digest {
		return nil, corrupt("its bytes do not match its digest")
	}
	return b, nil
}

// head returns the first n bytes of an object named by its digest. The errors name its kind.
func (s *Store) head(ctx context.Context, dir, digest, kind string, n int64) (objstore.Object, []byte, error) {
	obj, err := s.stat(ctx, dir, digest)
	if err != nil {
		return obj, nil, err
	}
	b, err := s.start(ctx, obj, kind, n)
	return obj, b, err
}

func (s *Store) start(ctx context.Context, obj objstore.Object, kind string, n int64) ([]byte, error) {
	if obj.Size < n {
		return nil, corrupt("invalid size of a %s: %d bytes", kind, obj.Size)
	}
	b := make([]byte, n)
	return b, s.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b)
}

// download copies an object to a local file and verifies its digest. It also writes the bytes to
// sum.
func (s *Store) download(ctx context.Context, obj objstore.Object, digest string, sum io.Writer) (*os.File, error) {
	f, err := s.tempFile()
	if err != nil {
		return nil, err
	}
	digests := sha256.New()
	to := io.MultiWriter(f, digests, sum)
	b := make([]byte, min(obj.Size, 4<<20))
	for at := int64(0); at < obj.Size && err == nil; at += int64(len(b)) {
		b = b[:min(int64(len(b)), obj.Size-at)]
		if err = s.cfg.Reader.ReadRange(ctx, obj.Ref(), at, b); err == nil {
			_, err = to.Write(b)
		}
	}
	if found := hex.EncodeToString(digests.Sum(nil)); err == nil && found != digest {
		err = corrupt("its bytes have the digest %.12s", found)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// keep stores an object under its digest in a directory.
func (s *Store) keep(ctx context.Context, dir string, b []byte) (digest string, created bool, err error) {
	sum := sha256.Sum256(b)
	digest = hex.EncodeToString(sum[:])
	created, err = s.put(ctx, dir+digest, bytes.NewReader(b), int64(len(b)))
	return digest, created, err
}

// put stores an object unless its key exists. created is false if the key exists.
func (s *Store) put(ctx context.Context, key string, body io.ReaderAt, size int64) (created bool, err error) {
	if s.cfg.Writer == nil {
		return false, fmt.Errorf("%w: the store was opened for reading only", ErrReadOnly)
	}
	_, err = s.cfg.Writer.Put(ctx, s.cfg.Prefix+key, body, size, objstore.Condition{IfAbsent: true})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, objstore.ErrDenied):
		return false, fmt.Errorf("%w: %w", ErrReadOnly, err)
	case !errors.Is(err, objstore.ErrChanged):
		return false, err
	}
	obj, err := s.cfg.Reader.Stat(ctx, s.cfg.Prefix+key)
	if err == nil && obj.Size != size {
		err = corrupt("%s has %d bytes instead of %d: remove the object, and try again", key, obj.Size, size)
	}
	return false, err
}

// tempFile creates an unnamed file in the configured directory. It creates the directory if
// necessary.
func (s *Store) tempFile() (*os.File, error) {
	dir := s.cfg.Dir
	if dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return tempfile.File(dir)
}

// Default returns the digest of the first split of a generation, which applies if a request names
// no split. It never changes.
func (s *Store) Default(ctx context.Context, generation string) (string, error) {
	digest, err := s.named(ctx, defaultPrefix+generation, "subset")
	if errors.Is(err, objstore.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNoDefault, err)
	}
	if err != nil {
		return "", fmt.Errorf("default split of generation %.12s: %w", generation, err)
	}
	return digest, nil
}

// named returns the digest in an object that names another object of a kind.
func (s *Store) named(ctx context.Context, key, kind string) (digest string, err error) {
	obj, err := s.cfg.Reader.Stat(ctx, s.cfg.Prefix+key)
	if err != nil {
		return "", err
	}
	if obj.Size == 0 || obj.Size > maxName {
		return "", corrupt("it has %d bytes: must be from 1 to %d", obj.Size, maxName)
	}
	b := make([]byte, obj.Size)
	if err := s.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return "", err
	}
	return decodeName(b, kind)
}

func decodeName(b []byte, kind string) (digest string, err error) {
	var of map[string]any
	if err := json.Unmarshal(b, &of); err != nil {
		return "", corrupt("%w", err)
	}
	if v := of["version"]; v != 1.0 {
		return "", fmt.Errorf("version %v: %w", v, ErrVersion)
	}
	if digest, _ = of[kind].(string); !isDigest(digest) {
		return "", corrupt("it does not contain a digest")
	}
	return digest, nil
}

// setName stores an object that names another object of a kind, unless its key exists. It returns
// the digest in the stored object.
func (s *Store) setName(ctx context.Context, key, kind, digest string) (string, error) {
	b := fmt.Appendf(nil, "{\"version\":1,%q:%q}\n", kind, digest)
	created, err := s.put(ctx, key, bytes.NewReader(b), int64(len(b)))
	if created {
		return digest, nil
	}
	if err != nil {
		return "", err
	}
	return s.named(ctx, key, kind)
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}
