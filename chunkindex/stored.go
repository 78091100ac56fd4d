package chunkindex

import "github.com/millrace-data/millrace/chunkindex/internal/layout"

// Defaults to Parts are stored in an index.
type (
	Defaults = layout.Defaults // plan parameters of the dataset
	Shard    = layout.Shard    // a stored object
	Extent   = layout.Extent   // a range of a shard
	Table    = layout.Table    // the samples of a chunk
	Part     = layout.Part     // a piece of a sample that has a name
	Parts    = layout.Parts    // those of all samples of a chunk
)

// What is wrong with an object that was read.
var (
	ErrCorrupt    = layout.ErrCorrupt    // bytes do not match their digests
	ErrVersion    = layout.ErrVersion    // a newer program wrote it
	ErrOldVersion = layout.ErrOldVersion // an older program wrote it, in a format that is no longer read
)

// ValidIndexName reports whether an index can have this name. The default index has none.
func ValidIndexName(name string) bool { return layout.ValidIndexName(name) }
