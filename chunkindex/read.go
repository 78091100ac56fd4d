package chunkindex

import (
	"fmt"

	"github.com/millrace-data/millrace/internal/objstore"
)

// RangeError names the place in the dataset where a read went wrong. It wraps an error of objstore's vocabulary, or ErrCorrupt.
type RangeError struct {
	Shard          int    // number of the shard in the index
	Key            string // the shard's key; of a mixture, behind the name of the source and a slash
	Offset, Length int64
	Err            error
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("read shard %s [%d,+%d): %v", e.Key, e.Offset, e.Length, e.Err)
}

func (e *RangeError) Unwrap() error { return e.Err }

// Explain says what is wrong with an object, by the cause as a BadRange or objstore.Kind has it, and what mends the dataset at the address.
func Explain(object, cause, address string) string {
	index := "run 'millrace index " + address + "'"
	// The index names one version of each file, so indexing brings an old generation back only with all its bytes.
	restore := "put all files back and " + index + ", and the same bytes keep their generation; with other bytes the index is for new runs alone"
	switch cause {
	case Rewritten:
		return object + " was copied or written again since it was indexed, with the same bytes: " + index + ", and all is as before"
	case objstore.ErrChanged.Error():
		return object + " was copied or changed since it was indexed: " + restore
	case objstore.ErrNotFound.Error():
		return object + " is missing: " + restore
	}
	return object + " is damaged: its bytes do not match their digests: put it back as it was; 'millrace verify " + address + "' finds all such places"
}
