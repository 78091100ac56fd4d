// Package pack turns files into tar shards that follow the WebDataset convention, and has them indexed.
package pack

import (
	"context"

	"github.com/millrace-data/millrace/chunkindex"
	"github.com/millrace-data/millrace/internal/objstore"
)

// Options says how files become shards. The zero value of a field means its default.
type Options struct {
	ShardSize int64  // target length of a shard, 256 MiB
	Key       string // "group" (files that share a key are one sample) or "path" (every file is a sample)
	Parallel  int
	Progress  func(chunkindex.Progress)
}

// Report says what was packed.
type Report struct {
	Files, Samples, Shards int
	ReusedShards           int // finished by an earlier, interrupted run
	Bytes                  int64
	MultiMember            int      // samples of more than one member
	Example                string   // one of them
	Skipped                []string // what is not a regular file, by name
}

// Pack packs the regular files under the sources (files or directories) into tar shards under prefix. The
// same input gives the same bytes. Indexing is a separate step.
func Pack(ctx context.Context, sources []string, store objstore.Store, prefix string, opt Options) (Report, error) {
	return Report{}, nil
}
