package chunkindex

import "github.com/millrace-data/millrace/chunkindex/internal/layout"

// These types describe the stored parts of an index.
type (
	// Defaults are the plan parameters of the dataset.
	Defaults = layout.Defaults
	// Shard is a stored object.
	Shard = layout.Shard
	// Extent is a range of a shard.
	Extent = layout.Extent
	// Table locates the samples of a chunk.
	Table = layout.Table
	// Part is a named piece of a sample.
	Part = layout.Part
	// Parts holds the parts of all samples of a chunk.
	Parts = layout.Parts
)

// Errors of stored objects.
var (
	ErrCorrupt    = layout.ErrCorrupt    // bytes do not match their digests
	ErrVersion    = layout.ErrVersion    // written by a newer program
	ErrOldVersion = layout.ErrOldVersion // written by an older program in an unsupported format
)

// ValidIndexName reports whether name is valid for an index. The default index has no name.
func ValidIndexName(name string) bool { return layout.ValidIndexName(name) }
