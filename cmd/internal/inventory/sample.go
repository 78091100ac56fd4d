package inventory

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/words"
)

// ErrNoSample reports that no sample of a dataset has a key.
var ErrNoSample = errors.New("no sample")

// Index finds samples by key, such as a *chunkindex.Index.
type Index interface {
	Lookup(ctx context.Context, key, shard string) (sample uint64, ok bool, err error)
}

// FindSample returns the number of the sample with a key. If several shards contain the key, shard
// selects one.
func FindSample(ctx context.Context, in Index, key, shard string) (uint64, error) {
	n, ok, err := in.Lookup(ctx, key, shard)
	var ambiguous *chunkindex.AmbiguousKeyError
	switch {
	case errors.As(err, &ambiguous):
		return 0, fmt.Errorf("key %s: %w: name one with --shard", words.Printable(key), ambiguous)
	case err != nil:
		return 0, fmt.Errorf("look up %s: %w", words.Printable(key), err)
	case !ok && shard != "":
		return 0, fmt.Errorf("%w of shard %s has the key %s", ErrNoSample, words.Printable(shard), words.Printable(key))
	case !ok:
		return 0, fmt.Errorf("%w has the key %s", ErrNoSample, words.Printable(key))
	}
	return n, nil
}
