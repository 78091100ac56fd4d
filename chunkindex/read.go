package chunkindex

import (
	"fmt"

	"github.com/millrace-data/millrace/internal/objstore"
)

// RangeError locates a failed read in the dataset. It wraps an objstore error or ErrCorrupt.
type RangeError struct {
	Shard          int    // number of the shard in the index
	Key            string // shard key; for a mixture, source name, slash, shard key
	Offset, Length int64
	Err            error
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("read shard %s [%d,+%d): %v", e.Key, e.Offset, e.Length, e.Err)
}

func (e *RangeError) Unwrap() error { return e.Err }

// Explain describes a damaged object and how to repair the dataset at the address. cause is a
// BadRange's Cause or an objstore.Kind.
func Explain(object, cause, address string) string {
	index := "run 'millrace index " + address + "'"
	// The index names one version of each file, so a new index run restores an old generation only
	// if all bytes are the same.
	restore := "put all files back and " + index + ": the same bytes keep their generation; with other bytes, use the index for new runs only"
	switch cause {
	case Rewritten:
		return object + " was copied or written again since it was indexed, with the same bytes: " + index + " to bind the index to the new versions"
	case objstore.ErrChanged.Error():
		return object + " was copied or changed since it was indexed: " + restore
	case objstore.ErrNotFound.Error():
		return object + " is missing: " + restore
	}
	return object + " is damaged: its bytes do not match their digests: restore it; 'millrace verify " + address + "' lists all bad ranges"
}
