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
)

// maxDefault limits the size of the object that names a generation's default split.
const maxDefault = 1 << 10

// Config locates the splits and quarantines of one dataset.
type Config struct {
	Reader objstore.Reader
	Writer objstore.Writer // nil: read-only
	Prefix string          // the dataset's location in the store: empty, or ending in a slash
	Dir    string          // directory for temporary files; empty: the system's default
}

// Store provides the splits and quarantines of one dataset. It is safe for concurrent use.
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

// defaultSplit is the content of the object that names a generation's default split.
type defaultSplit struct {
	Version int    `json:"version"`
	Subset  string `json:"subset"`
}

// Default returns the digest of the first split of a generation, which applies if a request names
// no split. It never changes.
func (s *Store) Default(ctx context.Context, generation string) (string, error) {
	digest, err := s.defaultOf(ctx, generation)
	if err != nil {
		return "", fmt.Errorf("default split of generation %.12s: %w", generation, err)
	}
	return digest, nil
}

func (s *Store) defaultOf(ctx context.Context, generation string) (string, error) {
	obj, err := s.cfg.Reader.Stat(ctx, s.cfg.Prefix+defaultPrefix+generation)
	if errors.Is(err, objstore.ErrNotFound) {
		return "", fmt.Errorf("%w: %w", ErrNoDefault, err)
	}
	if err != nil {
		return "", err
	}
	if obj.Size == 0 || obj.Size > maxDefault {
		return "", corrupt("it has %d bytes: must be from 1 to %d", obj.Size, maxDefault)
	}
	b := make([]byte, obj.Size)
	if err := s.cfg.Reader.ReadRange(ctx, obj.Ref(), 0, b); err != nil {
		return "", err
	}
	return decodeDefault(b)
}

func decodeDefault(b []byte) (string, error) {
	var d defaultSplit
	if err := json.Unmarshal(b, &d); err != nil {
		return "", corrupt("%w", err)
	}
	if d.Version != 1 {
		return "", fmt.Errorf("version %d: %w", d.Version, ErrVersion)
	}
	if !isDigest(d.Subset) {
		return "", corrupt("it does not contain a digest")
	}
	return d.Subset, nil
}

// setDefault makes a split the default of a generation, unless the generation has one. It returns
// the default.
func (s *Store) setDefault(ctx context.Context, generation, digest string) (string, error) {
	b, err := json.Marshal(defaultSplit{Version: 1, Subset: digest})
	if err != nil {
		return "", err
	}
	b = append(b, '\n')
	created, err := s.put(ctx, defaultPrefix+generation, bytes.NewReader(b), int64(len(b)))
	if created {
		return digest, nil
	}
	if err != nil {
		return "", err
	}
	return s.defaultOf(ctx, generation)
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}
