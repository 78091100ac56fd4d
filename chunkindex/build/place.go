package build

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Place is a location of objects: a prefix in a store.
type Place struct {
	Store  objstore.Store
	Prefix string // empty, or ending in a slash
}

// ErrReadOnly reports that the index location denies writes.
var ErrReadOnly = errors.New("the index location is read-only")

// ErrClassFolders reports that an index must not be stored in a directory of class folders.
var ErrClassFolders = errors.New("torchvision's ImageFolder would treat an index among class folders as one more class")

// indexStore wraps the store of a new index to distinguish denied writes from denied reads.
type indexStore struct{ objstore.Store }

func (s indexStore) Put(ctx context.Context, key string, body io.ReaderAt, size int64, cond objstore.Condition) (objstore.Object, error) {
	o, err := s.Store.Put(ctx, key, body, size, cond)
	return o, readOnly(err)
}

func (s indexStore) Delete(ctx context.Context, key string) error {
	return readOnly(s.Store.Delete(ctx, key))
}

func readOnly(err error) error {
	if errors.Is(err, objstore.ErrDenied) {
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}
