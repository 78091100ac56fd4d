package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// IndexOptions are those of build.Options that tests of this package need.
type IndexOptions struct {
	ChunkSize int64
	Format    string
	Hints     format.Options
	Parallel  int
	Parts     int  // leave the scans of part 0 of so many; 0: publish
	Rest      bool // scan what parts have not left
}

// IndexReport is what of build.Report tests of this package read.
type IndexReport struct {
	Generation         string
	Samples            uint64
	Bytes, ReadBytes   int64
	Unchanged, Rebound bool
	RepeatedKeys       uint64
	RepeatedKey        string
}

// IndexShards is build.Run, which tests inside this package cannot import, since it imports this package. TestMain sets it.
var IndexShards func(ctx context.Context, store objstore.Store, prefix string, opt IndexOptions) (IndexReport, error)
