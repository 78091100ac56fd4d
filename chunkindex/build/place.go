package build

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-data/millrace/internal/objstore"
)

// Place is where objects lie: below a prefix of a store.
type Place struct {
	Store  objstore.Store
	Prefix string // empty, or ends in a slash
}

// ErrReadOnly says that the place of an index takes no writes.
var ErrReadOnly = errors.New("the place of the index takes no writes")

// ErrClassFolders says that an index is not to lie among folders that are classes of pictures.
var ErrClassFolders = errors.New("torchvision's ImageFolder would take the index among class folders for one more class")

// indexStore is the store of an index that is made. It tells a write that is refused from a read that is refused.
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
