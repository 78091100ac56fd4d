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
	// Table has the samples of a chunk.
	Table = layout.Table
	// Part is a piece of a sample that has a name.
	Part = layout.Part
	// Parts has the parts of all samples of a chunk.
	Parts = layout.Parts
)

// What is wrong with an object that was read.
var (
	ErrCorrupt    = layout.ErrCorrupt    // bytes do not match their digests
	ErrVersion    = layout.ErrVersion    // a newer program wrote it
	ErrOldVersion = layout.ErrOldVersion // an older program wrote it, in a format that is no longer read
)

// ValidIndexName reports whether an index can have this name. The default index has none.
func ValidIndexName(name string) bool { return layout.ValidIndexName(name) }
