package chunkindex

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex/format"
	"github.com/millrace-data/millrace/internal/objstore"
)

// IndexOptions contains the fields of build.Options that tests of this package need.
type IndexOptions struct {
	ChunkSize int64
	Format    string
	Hints     format.Options
	Parallel  int
	Parts     int  // store the scans of part 0 of this number of parts; 0: publish
	Rest      bool // scan the shards without a stored scan
}

// IndexReport contains the fields of build.Report that tests of this package read.
type IndexReport struct {
	Generation         string
	Samples            uint64
	Bytes, ReadBytes   int64
	Unchanged, Rebound bool
	RepeatedKeys       uint64
	RepeatedKey        string
}

// IndexShards is build.Run. Tests inside this package cannot import build, which imports this
// package, so TestMain sets it.
var IndexShards func(ctx context.Context, store objstore.Store, prefix string, opt IndexOptions) (IndexReport, error)
